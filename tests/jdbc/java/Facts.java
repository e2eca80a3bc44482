import java.io.PrintStream;
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/** What a probe found out, printed as JSON lines: {"fact": name, "value": ...} or {"fact": name, "error": ...}. */
public final class Facts {
    private final PrintStream out;

    Facts(PrintStream out) {
        this.out = out;
    }

    /** Code that may fail as JDBC does. */
    @FunctionalInterface
    public interface Step {
        void run() throws Exception;
    }

    public synchronized void value(String fact, Object value) {
        out.println("{\"fact\": " + quoted(fact) + ", \"value\": " + json(value) + "}");
    }

    /** The value that a call returns, or how it fails. */
    public void of(String fact, Callable<Object> call) {
        try {
            value(fact, call.call());
        } catch (Throwable failure) {
            failure(fact, failure);
        }
    }

    /** That a step succeeds ("done"), or how it fails. */
    public void step(String fact, Step step) {
        of(fact, () -> {
            step.run();
            return "done";
        });
    }

    /** The rows of a result, each a list; closes it. */
    public void rows(String fact, Callable<ResultSet> call) {
        of(fact, () -> {
            try (ResultSet result = call.call()) {
                return rows(result);
            }
        });
    }

    /** The rows of a result, each an object with the names of the columns; closes it. */
    public void records(String fact, Callable<ResultSet> call) {
        of(fact, () -> {
            try (ResultSet result = call.call()) {
                return records(result);
            }
        });
    }

    public synchronized void failure(String fact, Throwable failure) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("class", failure.getClass().getName());
        if (failure instanceof SQLException) {
            told.put("state", ((SQLException) failure).getSQLState());
            told.put("code", ((SQLException) failure).getErrorCode());
        }
        List<String> messages = new ArrayList<>();
        for (Throwable cause = failure; cause != null && messages.size() < 8; cause = cause.getCause()) {
            messages.add(cause.getMessage());
        }
        told.put("messages", messages);
        out.println("{\"fact\": " + quoted(fact) + ", \"error\": " + json(told) + "}");
    }

    public static List<List<Object>> rows(ResultSet result) throws SQLException {
        int columns = result.getMetaData().getColumnCount();
        List<List<Object>> rows = new ArrayList<>();
        while (result.next()) {
            List<Object> row = new ArrayList<>();
            for (int column = 1; column <= columns; column++) {
                Object value = result.getObject(column);
                // An array is a view of the batch, which is gone when the next one comes.
                row.add(value instanceof java.sql.Array ? ((java.sql.Array) value).getArray() : value);
            }
            rows.add(row);
        }
        return rows;
    }

    public static List<Map<String, Object>> records(ResultSet result) throws SQLException {
        ResultSetMetaData columns = result.getMetaData();
        List<Map<String, Object>> records = new ArrayList<>();
        for (List<Object> row : rows(result)) {
            Map<String, Object> record = new LinkedHashMap<>();
            for (int column = 0; column < row.size(); column++) {
                record.put(columns.getColumnLabel(column + 1), row.get(column));
            }
            records.add(record);
        }
        return records;
    }

    private static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            return String.valueOf(value);
        }
        if (value instanceof Short || value instanceof Byte) {
            return value.toString();
        }
        if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            return Double.isFinite(number) ? value.toString() : quoted(value.toString());
        }
        if (value instanceof BigDecimal) {
            return quoted(((BigDecimal) value).toPlainString());
        }
        if (value instanceof byte[]) {
            StringBuilder hexadecimal = new StringBuilder("0x");
            for (byte one : (byte[]) value) {
                hexadecimal.append(String.format("%02x", one));
            }
            return quoted(hexadecimal.toString());
        }
        if (value instanceof java.sql.Array) {
            try {
                return json(((java.sql.Array) value).getArray());
            } catch (SQLException failure) {
                return quoted("getArray: " + failure.getMessage());
            }
        }
        if (value instanceof Map) {
            List<String> members = new ArrayList<>();
            ((Map<?, ?>) value).forEach((name, member) -> members.add(quoted(String.valueOf(name)) + ": " + json(member)));
            return "{" + String.join(", ", members) + "}";
        }
        if (value instanceof Iterable) {
            List<String> items = new ArrayList<>();
            ((Iterable<?>) value).forEach(item -> items.add(json(item)));
            return "[" + String.join(", ", items) + "]";
        }
        if (value.getClass().isArray()) {
            List<Object> items = new ArrayList<>();
            for (int place = 0; place < Array.getLength(value); place++) {
                items.add(Array.get(value, place));
            }
            return json(items);
        }
        return quoted(value.toString());
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char mark : text.toCharArray()) {
            if (mark == '"' || mark == '\\') {
                quoted.append('\\').append(mark);
            } else if (mark < ' ' || mark > '~') {
                quoted.append(String.format("\\u%04x", (int) mark));
            } else {
                quoted.append(mark);
            }
        }
        return quoted.append('"').toString();
    }
}
