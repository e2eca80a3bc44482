import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Follows a table while another connection writes it; arguments: URL, and a table (id BIGINT, text VARCHAR, ..). */
public final class Following implements Probes.Probe {
    private static final long PATIENCE_SECONDS = 20;

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        String table = arguments[1];
        LinkedBlockingQueue<List<Object>> seen = new LinkedBlockingQueue<>();
        // Not closed: the driver waits for a batch of the stream that it cancels.
        Connection following = DriverManager.getConnection(arguments[0]);
        Statement endless = following.createStatement();
        Thread reader = new Thread(() -> {
            try (ResultSet changes = endless.executeQuery(
                    "SELECT id, text, _change FROM lance_changes('" + table + "', since => 1, follow => true)")) {
                while (changes.next()) {
                    seen.add(List.of(changes.getLong(1), changes.getString(2), changes.getString(3)));
                }
            } catch (Exception ended) {
                seen.add(List.of("ended"));
            }
        });
        reader.setDaemon(true);
        reader.start();
        try (Connection writing = DriverManager.getConnection(arguments[0]);
                Statement statement = writing.createStatement()) {
            for (int id = 1; id <= 3; id++) {
                statement.executeUpdate("INSERT INTO " + table + " (id, text) VALUES (" + id + ", 'new')");
                facts.value("insert " + id, take(seen, 1));
            }
            statement.executeUpdate("UPDATE " + table + " SET text = 'changed' WHERE id = 2");
            facts.value("update", take(seen, 2));
            statement.executeUpdate("DELETE FROM " + table + " WHERE id = 3");
            facts.value("delete", take(seen, 1));
        }
        endless.cancel();
        facts.value("cancelled", take(seen, 1));
    }

    private static List<Object> take(LinkedBlockingQueue<List<Object>> seen, int count) throws Exception {
        List<Object> taken = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            taken.add(seen.poll(PATIENCE_SECONDS, TimeUnit.SECONDS));
        }
        return taken;
    }
}
