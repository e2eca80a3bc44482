import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.Calendar;
import java.util.List;
import java.util.TimeZone;

/** What the typed getters of a result return for the first row of `types`. */
public final class Accessors implements Probes.Probe {
    private Facts facts;
    private ResultSet row;

    /** Reads one column. */
    @FunctionalInterface
    private interface Getter {
        Object get(String column) throws Exception;
    }

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        this.facts = facts;
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery("SELECT * FROM types WHERE id = 1")) {
            result.next();
            row = result;
            for (String column : new String[] {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "f32", "f64"}) {
                read(column, "getDouble", row::getDouble);
                read(column, "getBigDecimal", name -> row.getBigDecimal(name).stripTrailingZeros());
                read(column, "getLong", row::getLong);
            }
            read("u64", "getBigDecimal", row::getBigDecimal);
            read("u64", "getObject(BigDecimal)", name -> row.getObject(name, BigDecimal.class));
            read("dec", "getDouble", row::getDouble);
            read("dec", "getLong", row::getLong);
            read("i8", "getByte", row::getByte);
            read("i16", "getShort", row::getShort);
            read("i32", "getInt", row::getInt);
            read("f16", "getFloat", row::getFloat);
            read("flag", "getBoolean", row::getBoolean);
            read("flag", "getInt", row::getInt);
            read("text", "getBytes", row::getBytes);
            read("text", "getCharacterStream", name -> (char) row.getCharacterStream(name).read());
            read("blob", "getBytes", row::getBytes);
            read("blob", "getBinaryStream", name -> row.getBinaryStream(name).readAllBytes());
            read("uuid", "getBytes", row::getBytes);
            read("d32", "getDate", row::getDate);
            read("d32", "getTimestamp", row::getTimestamp);
            read("d32", "getObject(Date)", name -> row.getObject(name, Date.class));
            read("t64us", "getTime", row::getTime);
            read("t64us", "getObject(Time)", name -> row.getObject(name, Time.class));
            read("ts_us", "getTimestamp", row::getTimestamp);
            read("ts_us", "getDate", row::getDate);
            read("ts_us", "getTime", row::getTime);
            read("ts_us", "getObject(Timestamp)", name -> row.getObject(name, Timestamp.class));
            read("ts_us", "getObject(LocalDateTime)", name -> row.getObject(name, LocalDateTime.class));
            Calendar newYork = Calendar.getInstance(TimeZone.getTimeZone("America/New_York"));
            read("ts_us", "getTimestamp with Calendar", name -> row.getTimestamp(name, newYork));
            read("tz_us", "getTimestamp", row::getTimestamp);
            read("tz_us", "getTimestamp as instant", name -> row.getTimestamp(name).toInstant());
            read("tz_us", "getObject(LocalDateTime)", name -> row.getObject(name, LocalDateTime.class));
            read("tz_us", "getObject(Instant)", name -> row.getObject(name, Instant.class));
            read("tz_us", "getObject(OffsetDateTime)", name -> row.getObject(name, OffsetDateTime.class));
            read("numbers", "getArray", name -> row.getArray(name).getArray());
            read("vec", "getArray", name -> row.getArray(name).getArray());
            read("vec", "getArray, its base type", name -> row.getArray(name).getBaseTypeName());
            read("vec", "getArray, its rows", name -> {
                try (ResultSet items = row.getArray(name).getResultSet()) {
                    return Facts.rows(items).size();
                }
            });
            read("pair", "getObject(Struct)", name -> List.of(row.getObject(name, java.sql.Struct.class).getAttributes()));
        }
        try (Connection connection = DriverManager.getConnection(arguments[0] + "&types=arrow");
                Statement statement = connection.createStatement()) {
            try (ResultSet result = statement.executeQuery("SELECT tz_us, u8 FROM types WHERE id = 1")) {
                result.next();
                row = result;
                read("tz_us", "getTimestamp, types=arrow", row::getTimestamp);
                read("tz_us", "getObject(Instant), types=arrow", name -> row.getObject(name, Instant.class));
                facts.of("tz_us getObject(1), types=arrow", () -> row.getObject(1));
                read("u8", "getObject, types=arrow", row::getObject);
            }
            facts.rows("f16, types=arrow", () -> statement.executeQuery("SELECT f16 FROM types"));
        }
    }

    private void read(String column, String getter, Getter reading) {
        facts.of(column + " " + getter, () -> reading.get(column));
    }
}
