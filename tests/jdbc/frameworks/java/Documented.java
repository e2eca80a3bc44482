import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;

/** What an example of the documentation prints; arguments: the name of its class and the URL. */
public final class Documented implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream out = System.out;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try (Connection connection = DriverManager.getConnection(arguments[1])) {
            Class.forName(arguments[0]).getMethod("run", Connection.class).invoke(null, connection);
        } catch (InvocationTargetException failure) {
            facts.failure("probe", failure.getCause());
        } finally {
            System.setOut(out);
        }
        facts.value("printed", printed.toString(StandardCharsets.UTF_8));
    }
}
