import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.util.Arrays;
import java.util.Comparator;

/** Every getter of DatabaseMetaData that takes no argument. */
public final class Getters implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData metadata = connection.getMetaData();
            Method[] methods = DatabaseMetaData.class.getMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                boolean plain = method.getParameterCount() == 0 && method.getDeclaringClass() == DatabaseMetaData.class;
                if (plain && method.getReturnType() != Connection.class) {
                    facts.of(method.getName(), () -> {
                        try {
                            Object value = method.invoke(metadata);
                            if (value instanceof ResultSet) {
                                try (ResultSet rows = (ResultSet) value) {
                                    return Facts.records(rows);
                                }
                            }
                            return value;
                        } catch (InvocationTargetException failure) {
                            throw (Exception) failure.getCause();
                        }
                    });
                }
            }
        }
    }
}
