import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.time.LocalDateTime;
import java.util.Calendar;
import java.util.TimeZone;

/** What the driver makes of times where the JVM's time zone is not UTC but that of the second argument. */
public final class Zones implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        TimeZone before = TimeZone.getDefault();
        TimeZone.setDefault(TimeZone.getTimeZone(arguments[1]));
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            Calendar utc = Calendar.getInstance(TimeZone.getTimeZone("UTC"));
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT ts_us, d32, t64us FROM types WHERE id = 1")) {
                row.next();
                facts.of("getTimestamp", () -> row.getTimestamp(1));
                facts.of("getTimestamp with Calendar", () -> row.getTimestamp(1, utc));
                facts.of("getString", () -> row.getString(1));
                facts.of("getObject(LocalDateTime)", () -> row.getObject(1, LocalDateTime.class));
                facts.of("getDate", () -> row.getDate(2));
                facts.of("getTime", () -> row.getTime(3));
            }
        } finally {
            TimeZone.setDefault(before);
        }
    }
}
