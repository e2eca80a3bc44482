import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import liquibase.Scope;
import liquibase.command.CommandScope;
import liquibase.resource.DirectoryResourceAccessor;

/** Change logs that Liquibase runs, repeats and takes back; arguments: the URL, and the folder of the change logs. */
public final class LiquibaseRuns implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        // It logs what fails, which the test looks at by itself, and tells its progress where the facts are told.
        Logger.getLogger("liquibase").setLevel(Level.OFF);
        System.setProperty("liquibase.changelogLockWaitTimeInMinutes", "0");
        PrintStream out = System.out;
        System.setOut(System.err);
        try {
            run(facts, arguments[0], Path.of(arguments[1]));
        } finally {
            System.setOut(out);
        }
    }

    private static void run(Facts facts, String url, Path folder) throws Exception {
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            facts.of("update", () -> execute(url, folder, "update", "changelogFile", "changes.xml"));
            facts.rows("rows", () -> statement.executeQuery(
                    "SELECT id, page, i, b, n, dt, ts, note FROM liquid_pages ORDER BY id"));
            facts.rows("columns", () -> statement.executeQuery("SELECT column_name, data_type FROM information_schema.columns"
                    + " WHERE table_name = 'liquid_pages' ORDER BY ordinal_position"));
            facts.rows("history", () -> statement.executeQuery(
                    "SELECT id, exectype FROM databasechangelog WHERE filename = 'changes.xml' ORDER BY orderexecuted"));
            facts.of("again", () -> execute(url, folder, "update", "changelogFile", "changes.xml"));
            facts.of("one that fails", () -> execute(url, folder, "update", "changelogFile", "fails.xml"));
            facts.rows("locks", () -> statement.executeQuery("SELECT locked FROM databasechangeloglock"));
            statement.executeUpdate("UPDATE databasechangeloglock SET locked = TRUE, lockedby = 'ada', lockgranted = now()");
            facts.of("while another one has the lock", () -> execute(url, folder, "update", "changelogFile", "fails.xml"));
            facts.of("release", () -> execute(url, folder, "releaseLocks"));
            facts.rows("released", () -> statement.executeQuery("SELECT locked, lockedby FROM databasechangeloglock"));
            facts.of("snapshot", () -> execute(url, folder, "snapshot", "snapshotFormat", "json").contains("\"liquid_pages\""));
            facts.of("tag", () -> execute(url, folder, "tag", "tag", "two"));
            facts.of("rollback", () -> execute(url, folder, "rollback", "changelogFile", "changes.xml", "tag", "one"));
            facts.rows("left", () -> statement.executeQuery("SELECT id FROM databasechangelog WHERE filename = 'changes.xml' ORDER BY orderexecuted"));
            facts.rows("tables", () -> statement.executeQuery(
                    "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'liquid%' ORDER BY 1"));
        }
    }

    private static String execute(String url, Path folder, String command, String... options) throws Exception {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        Scope.child(Map.of(Scope.Attr.resourceAccessor.name(), new DirectoryResourceAccessor(folder)), () -> {
            CommandScope scope = new CommandScope(command).addArgumentValue("url", url);
            for (int i = 0; i < options.length; i += 2) {
                scope.addArgumentValue(options[i], options[i + 1]);
            }
            scope.setOutput(output).execute();
        });
        return output.toString().strip();
    }
}
