import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Time;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.Calendar;
import java.util.Map;
import java.util.TimeZone;
import java.util.UUID;

/**
 * How many rows of `types` are found by a value that is bound to each kind of column, by each way to bind it.
 *
 * <p>Bindings that the driver refuses are tried on a connection of their own, since the driver then loses memory and
 * says so when the connection is closed.
 */
public final class Parameters implements Probes.Probe {
    private static final Calendar UTC = Calendar.getInstance(TimeZone.getTimeZone("UTC"));

    private Connection connection;
    private Connection misused;
    private Facts facts;

    /** Binds the first parameter. */
    @FunctionalInterface
    private interface Binding {
        void bind(PreparedStatement statement) throws Exception;
    }

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        this.facts = facts;
        try (Connection opened = DriverManager.getConnection(arguments[0])) {
            connection = opened;
            numbers();
            texts();
            times();
            others();
            nulls();
        }
        misused = DriverManager.getConnection(arguments[0]);
        refused();
        facts.step("closing after refused bindings", misused::close);
    }

    private void numbers() {
        found("i8", "setByte", statement -> statement.setByte(1, (byte) -8));
        found("i16", "setShort", statement -> statement.setShort(1, (short) -16));
        found("i32", "setInt", statement -> statement.setInt(1, -32));
        found("i64", "setLong", statement -> statement.setLong(1, -64));
        found("u8", "setShort", statement -> statement.setShort(1, (short) 200));
        found("u16", "setInt", statement -> statement.setInt(1, 60_000));
        found("u32", "setLong", statement -> statement.setLong(1, 4_000_000_000L));
        found("u64", "setBigDecimal", statement -> statement.setBigDecimal(1, new BigDecimal("18000000000000000000")));
        found("u64", "setLong", statement -> statement.setLong(1, 18L));
        found("f32", "setFloat", statement -> statement.setFloat(1, 0.5f));
        found("f16", "setFloat", statement -> statement.setFloat(1, 0.5f));
        found("f64", "setDouble", statement -> statement.setDouble(1, 0.25));
        found("f64", "setFloat", statement -> statement.setFloat(1, 0.25f));
        found("f64", "setInt", statement -> statement.setInt(1, 0));
        found("dec", "setBigDecimal", statement -> statement.setBigDecimal(1, new BigDecimal("12.34")));
        found("i64", "setInt", statement -> statement.setInt(1, -64));
        found("i64", "setObject(Integer)", statement -> statement.setObject(1, -64));
        found("i64", "setObject(Long)", statement -> statement.setObject(1, -64L));
        found("i64", "setObject(String, BIGINT)", statement -> statement.setObject(1, "-64", Types.BIGINT));
        found("i64", "setDouble", statement -> statement.setDouble(1, -64.5));
        found("i32", "setLong", statement -> statement.setLong(1, 4_294_967_264L));
        found("flag", "setBoolean", statement -> statement.setBoolean(1, true));
        found("flag", "setObject(Boolean)", statement -> statement.setObject(1, Boolean.TRUE));
    }

    private void texts() {
        found("text", "setString", statement -> statement.setString(1, "gr\u00fcn; 'quoted'"));
        found("text", "setObject(String)", statement -> statement.setObject(1, "gr\u00fcn; 'quoted'"));
        found("text", "setNString", statement -> statement.setNString(1, "gr\u00fcn; 'quoted'"));
        found("ltext", "setString", statement -> statement.setString(1, "large"));
        found("code", "setString", statement -> statement.setString(1, "d"));
        found("blob", "setBytes", statement -> statement.setBytes(1, new byte[] {0, (byte) 255, 39}));
        found("blob", "setObject(byte[])", statement -> statement.setObject(1, new byte[] {0, (byte) 255, 39}));
        found("lblob", "setBytes", statement -> statement.setBytes(1, new byte[] {1, 2}));
        byte[] sixteen = new byte[16];
        for (byte place = 0; place < sixteen.length; place++) {
            sixteen[place] = place;
        }
        found("uuid", "setBytes", statement -> statement.setBytes(1, sixteen));
    }

    private void times() {
        Date day = Date.valueOf("2026-02-28");
        Time clock = Time.valueOf("01:02:03");
        for (String column : new String[] {"d32", "d64"}) {
            found(column, "setDate", statement -> statement.setDate(1, day));
            found(column, "setDate with Calendar", statement -> statement.setDate(1, day, UTC));
            found(column, "setObject(Date)", statement -> statement.setObject(1, day));
        }
        for (String column : new String[] {"t32s", "t32ms", "t64us", "t64ns"}) {
            found(column, "setTime", statement -> statement.setTime(1, clock));
            found(column, "setTime with Calendar", statement -> statement.setTime(1, clock, UTC));
        }
        for (String kind : new String[] {"ts", "tz"}) {
            for (String unit : new String[] {"s", "ms", "us", "ns"}) {
                Timestamp moment = Timestamp.valueOf("2026-02-28 23:59:59" + (unit.equals("s") ? "" : ".123"));
                String column = kind + "_" + unit;
                found(column, "setTimestamp", statement -> statement.setTimestamp(1, moment));
                found(column, "setTimestamp with Calendar", statement -> statement.setTimestamp(1, moment, UTC));
                found(column, "setObject(Timestamp)", statement -> statement.setObject(1, moment));
            }
        }
        Timestamp second = Timestamp.valueOf("2026-02-28 23:59:59");
        found("tz_berlin", "setTimestamp", statement -> statement.setTimestamp(1, second));
        facts.of("setString in a cast", () -> read(
                "SELECT count(*) FROM types WHERE ts_us = CAST(CAST(? AS VARCHAR) AS TIMESTAMP)",
                statement -> statement.setString(1, "2026-02-28 23:59:59.123")));
    }

    private void others() {
        found("numbers", "setArray", statement ->
                statement.setArray(1, connection.createArrayOf("INTEGER", new Object[] {1, null, 3})));
        found("vec", "setArray", statement ->
                statement.setArray(1, connection.createArrayOf("REAL", new Object[] {0.5f, 1f, 2f, 3f})));
        found("lnumbers", "setArray", statement ->
                statement.setArray(1, connection.createArrayOf("INTEGER", new Object[] {1, null, 3})));
        found("vec16", "setArray", statement ->
                statement.setArray(1, connection.createArrayOf("REAL", new Object[] {0.5f, 1f, 2f, 3f})));
        found("words", "setArray", statement ->
                statement.setArray(1, connection.createArrayOf("VARCHAR", new Object[] {"a", "b"})));
        facts.of("a vector that is searched for", () -> read(
                "SELECT CAST(_distance AS DOUBLE) FROM lance_vector_search('types', 'vec', ?, k => 1)",
                statement -> statement.setArray(1, connection.createArrayOf("DOUBLE", new Object[] {0.5, 1.0, 2.0, 5.0}))));
        facts.of("a vector that is sorted by", () -> read(
                "SELECT CAST(l2_distance(vec, ?) AS DOUBLE) AS d FROM types ORDER BY d LIMIT 1",
                statement -> statement.setArray(1, connection.createArrayOf("DOUBLE", new Object[] {0.5, 1.0, 2.0, 5.0}))));
        facts.of("a parameter whose type is open, setString", () -> read("SELECT ? AS v", statement -> statement.setString(1, "x")));
        facts.of("a number whose type is open, setDouble", () -> read("SELECT abs(?) AS v", statement -> statement.setDouble(1, -1.5)));
        facts.of("a number whose type is open, setInt", () -> read("SELECT abs(?) AS v", statement -> statement.setInt(1, -2)));
        facts.of("a sum of open types", () -> read(
                "SELECT sum(CASE WHEN id = 1 THEN ? ELSE ? END) AS v FROM types",
                statement -> { statement.setDouble(1, 1.5); statement.setDouble(2, 2); }));
        facts.of("a list of ANY, setArray", () -> read("SELECT count(*) FROM types WHERE i64 = ANY(?)",
                statement -> statement.setArray(1, connection.createArrayOf("BIGINT", new Object[] {-64L, 7L}))));
        facts.of("a parameter that is cast", () -> read("SELECT CAST(? AS BIGINT) + 1 AS v", statement -> statement.setLong(1, 41)));
        facts.of("LIMIT", () -> read("SELECT id FROM orders ORDER BY id LIMIT ?", statement -> statement.setLong(1, 1)));
        facts.of("IN", () -> read("SELECT count(*) FROM orders WHERE id IN (?, 2, 3)", statement -> statement.setLong(1, 1)));
    }

    private void nulls() {
        String[] columns = {
            "flag", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "dec", "dec256", "text", "ltext",
            "code", "blob", "lblob", "uuid", "d32", "d64", "t32s", "t32ms", "t64us", "t64ns", "ts_s", "ts_ms", "ts_us", "ts_ns",
            "tz_s", "tz_ms", "tz_us", "tz_ns", "tz_berlin", "dur_s", "dur_ms", "dur_us", "dur_ns", "numbers", "lnumbers",
            "words", "vec", "vec16", "pair", "pairs"
        };
        for (String column : columns) {
            found(column, "setNull", statement -> statement.setNull(1, Types.NULL));
            facts.of(column + " IS NOT DISTINCT FROM NULL", () -> read(
                    "SELECT count(*) FROM types WHERE " + column + " IS NOT DISTINCT FROM ?",
                    statement -> statement.setNull(1, Types.VARCHAR)));
        }
        found("text", "setString(null)", statement -> statement.setString(1, null));
        found("i64", "setObject(null)", statement -> statement.setObject(1, null));
    }

    private void refused() {
        refused("dec", "setBigDecimal of another scale", statement -> statement.setBigDecimal(1, new BigDecimal("12.340")));
        refused("dec", "setDouble", statement -> statement.setDouble(1, 12.34));
        refused("dec", "setInt", statement -> statement.setInt(1, 12));
        refused("dec256", "setBigDecimal", statement ->
                statement.setBigDecimal(1, new BigDecimal("12345678901234567890123456789012345678901.345")));
        refused("i64", "setString", statement -> statement.setString(1, "-64"));
        refused("text", "setCharacterStream", statement ->
                statement.setCharacterStream(1, new StringReader("gr\u00fcn; 'quoted'")));
        refused("text", "setInt", statement -> statement.setInt(1, 1));
        refused("blob", "setBinaryStream", statement ->
                statement.setBinaryStream(1, new ByteArrayInputStream(new byte[] {0, (byte) 255, 39})));
        refused("uuid", "setObject(UUID)", statement ->
                statement.setObject(1, UUID.fromString("00010203-0405-0607-0809-0a0b0c0d0e0f")));
        refused("d32", "setObject(LocalDate)", statement -> statement.setObject(1, LocalDate.of(2026, 2, 28)));
        refused("t64us", "setObject(LocalTime)", statement -> statement.setObject(1, LocalTime.of(1, 2, 3)));
        refused("ts_us", "setObject(LocalDateTime)", statement ->
                statement.setObject(1, LocalDateTime.of(2026, 2, 28, 23, 59, 59, 123_000_000)));
        refused("tz_us", "setObject(Instant)", statement ->
                statement.setObject(1, Instant.parse("2026-02-28T23:59:59.123Z")));
        refused("tz_us", "setObject(OffsetDateTime)", statement ->
                statement.setObject(1, OffsetDateTime.parse("2026-02-28T23:59:59.123Z")));
        refused("ts_us", "setString", statement -> statement.setString(1, "2026-02-28 23:59:59.123"));
        facts.of("a parameter whose type is open, setInt", () ->
                read(misused, "SELECT ? AS v", statement -> statement.setInt(1, 1)));
        refused("dur_s", "setObject(Duration)", statement -> statement.setObject(1, Duration.ofSeconds(86_402)));
        refused("pair", "setObject(Map)", statement -> statement.setObject(1, Map.of("a", 1, "b", "x")));
        refused("i64", "nothing", statement -> {});
    }

    private void found(String column, String setter, Binding binding) {
        facts.of(column + " " + setter, () -> read("SELECT count(*) FROM types WHERE " + column + " = ?", binding));
    }

    private void refused(String column, String setter, Binding binding) {
        String sql = "SELECT count(*) FROM types WHERE " + column + " = ?";
        facts.of(column + " " + setter, () -> read(misused, sql, binding));
    }

    private Object read(String sql, Binding binding) throws Exception {
        return read(connection, sql, binding);
    }

    private static Object read(Connection connection, String sql, Binding binding) throws Exception {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            binding.bind(statement);
            try (ResultSet result = statement.executeQuery()) {
                result.next();
                return result.getObject(1);
            }
        }
    }
}
