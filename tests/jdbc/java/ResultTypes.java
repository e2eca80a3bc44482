import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.util.LinkedHashMap;
import java.util.Map;

/** What each column of a query looks like: its metadata, and each of its values by getObject and getString. */
public final class ResultTypes implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery(arguments[1])) {
            ResultSetMetaData columns = result.getMetaData();
            for (int column = 1; column <= columns.getColumnCount(); column++) {
                Map<String, Object> told = new LinkedHashMap<>();
                told.put("name", columns.getColumnName(column));
                told.put("label", columns.getColumnLabel(column));
                told.put("type", columns.getColumnType(column));
                told.put("type_name", columns.getColumnTypeName(column));
                told.put("class", columns.getColumnClassName(column));
                told.put("precision", columns.getPrecision(column));
                told.put("scale", columns.getScale(column));
                told.put("nullable", columns.isNullable(column));
                told.put("signed", columns.isSigned(column));
                told.put("table", columns.getTableName(column));
                facts.value("column " + columns.getColumnName(column), told);
            }
            for (int row = 1; result.next(); row++) {
                for (int column = 1; column <= columns.getColumnCount(); column++) {
                    String name = columns.getColumnName(column) + " " + row;
                    int place = column;
                    facts.of("object " + name, () -> result.getObject(place));
                    facts.of("text " + name, () -> result.getString(place));
                    facts.of("class " + name, () -> {
                        Object value = result.getObject(place);
                        return value == null ? null : value.getClass().getName();
                    });
                }
            }
        }
    }
}
