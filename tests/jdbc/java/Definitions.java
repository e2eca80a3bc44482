import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.Statement;

/** A table as migration tools and object mappers create it; arguments: URL and the name of the table. */
public final class Definitions implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        String table = arguments[1];
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement()) {
            facts.of("CREATE TABLE", () -> statement.executeUpdate("CREATE TABLE " + table + " (ID VARCHAR(36) NOT NULL, "
                    + "AUTHOR VARCHAR(10) DEFAULT 'nobody' NOT NULL, CODE CHAR(2), PICTURE VARBINARY(16), "
                    + "PRICE DECIMAL(10, 2) DEFAULT 0 NOT NULL, MADE TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
                    + "CONSTRAINT PK_" + table + " PRIMARY KEY (ID), CONSTRAINT CK_PRICE CHECK (PRICE >= 0))"));
            facts.of("ALTER TABLE", () -> statement.executeUpdate("ALTER TABLE " + table + " ADD NOTE VARCHAR(20)"));
            DatabaseMetaData metadata = connection.getMetaData();
            facts.records("columns", () -> metadata.getColumns(null, "main", table, null));
            facts.rows("defaults", () -> statement.executeQuery("SELECT column_name, column_default, "
                    + "CAST(character_maximum_length AS BIGINT) FROM information_schema.columns WHERE table_name = '" + table
                    + "' ORDER BY ordinal_position"));
            facts.rows("constraints", () -> statement.executeQuery("SELECT constraint_name, constraint_type "
                    + "FROM information_schema.table_constraints WHERE table_name = '" + table + "' ORDER BY 1"));
            String insert = "INSERT INTO " + table + " (ID, AUTHOR) VALUES (?, ?)";
            facts.of("a bound text that fits", () -> insert(connection, insert, "1", "0123456789"));
            facts.of("a bound text that is too long", () -> insert(connection, insert, "2", "0123456789a"));
            facts.of("a batch with a text that is too long", () -> {
                try (PreparedStatement prepared = connection.prepareStatement(insert)) {
                    for (String author : new String[] {"a", "b", "0123456789a"}) {
                        prepared.setString(1, author);
                        prepared.setString(2, author);
                        prepared.addBatch();
                    }
                    return prepared.executeBatch();
                }
            });
            facts.of("a row that a check refuses", () ->
                    statement.executeUpdate("INSERT INTO " + table + " (ID, PRICE) VALUES ('3', -1)"));
            facts.of("a row of defaults", () ->
                    statement.executeUpdate("INSERT INTO " + table + " (ID, AUTHOR) VALUES ('4', DEFAULT)"));
            facts.rows("rows", () -> statement.executeQuery(
                    "SELECT id, author, price, made IS NOT NULL FROM " + table + " ORDER BY id"));
        }
    }

    private static int insert(Connection connection, String sql, String id, String author) throws Exception {
        try (PreparedStatement prepared = connection.prepareStatement(sql)) {
            prepared.setString(1, id);
            prepared.setString(2, author);
            return prepared.executeUpdate();
        }
    }
}
