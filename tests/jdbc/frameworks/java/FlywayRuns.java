import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.configuration.FluentConfiguration;

/** Migrations that Flyway runs, repeats, repairs and validates; arguments: the URL, and the folders of good and of all migrations. */
public final class FlywayRuns implements Probes.Probe {
    private static final String HISTORY = "runs_history";

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        Flyway good = configure(arguments[0], arguments[1]).load();
        Flyway all = configure(arguments[0], arguments[2]).load();
        facts.of("two at once", () -> migrateTogether(good));
        facts.of("again", () -> good.migrate().migrationsExecuted);
        facts.of("states", () -> Arrays.stream(good.info().all()).map(one -> one.getDescription() + " " + one.getState()).toList());
        facts.step("validate", good::validate);
        facts.of("one that fails", () -> all.migrate().migrationsExecuted);
        facts.of("before repair", () -> all.migrate().migrationsExecuted);
        facts.of("repair", () -> all.repair().repairActions);
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement()) {
            facts.rows("rows", () -> statement.executeQuery("SELECT id, page, note FROM run_pages"));
            facts.rows("history", () -> statement.executeQuery(
                    "SELECT installed_rank, version, success FROM " + HISTORY + " ORDER BY installed_rank"));
            statement.executeUpdate("INSERT INTO " + HISTORY + " (installed_rank, description, type, script, installed_by, "
                    + "execution_time, success) VALUES (-100, 'lock', 'LOCK', '', 'flyway', 0, TRUE)");
            facts.of("while another one has the lock", () -> good.migrate().migrationsExecuted);
        }
    }

    private static FluentConfiguration configure(String url, String folder) {
        return Flyway.configure().dataSource(url, null, null).locations("filesystem:" + folder).table(HISTORY)
                .baselineOnMigrate(true).baselineVersion("0").lockRetryCount(0);
    }

    private static List<Integer> migrateTogether(Flyway flyway) throws Exception {
        flyway.baseline();
        Flyway patient = Flyway.configure().configuration(flyway.getConfiguration()).lockRetryCount(-1).load();
        ExecutorService threads = Executors.newFixedThreadPool(2);
        try {
            List<Future<Integer>> runs = List.of(
                    threads.submit(() -> patient.migrate().migrationsExecuted), threads.submit(() -> patient.migrate().migrationsExecuted));
            List<Integer> executed = new ArrayList<>(List.of(runs.get(0).get(), runs.get(1).get()));
            executed.sort(null);
            return executed;
        } finally {
            threads.shutdown();
        }
    }
}
