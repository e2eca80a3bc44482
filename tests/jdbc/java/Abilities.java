import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.JDBCType;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.List;

/** What is supported of each kind, by the getters of DatabaseMetaData that take one. */
public final class Abilities implements Probes.Probe {
    private static final int[] SCROLLING = {
        ResultSet.TYPE_FORWARD_ONLY, ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.TYPE_SCROLL_SENSITIVE
    };
    private static final int[] ISOLATION = {
        Connection.TRANSACTION_NONE, Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_READ_COMMITTED,
        Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE
    };
    private static final int[] HOLDABILITY = {ResultSet.HOLD_CURSORS_OVER_COMMIT, ResultSet.CLOSE_CURSORS_AT_COMMIT};
    private static final JDBCType[] TYPES = {
        JDBCType.BOOLEAN, JDBCType.INTEGER, JDBCType.BIGINT, JDBCType.DOUBLE, JDBCType.DECIMAL, JDBCType.VARCHAR,
        JDBCType.VARBINARY, JDBCType.DATE, JDBCType.TIME, JDBCType.TIMESTAMP
    };

    private Facts facts;

    /** Whether a kind is supported. */
    @FunctionalInterface
    private interface Getter {
        boolean of(int kind) throws Exception;
    }

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        this.facts = facts;
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData metadata = connection.getMetaData();
            supported("supportsResultSetType", SCROLLING, metadata::supportsResultSetType);
            supported("supportsResultSetConcurrency", SCROLLING, kind ->
                    metadata.supportsResultSetConcurrency(kind, ResultSet.CONCUR_READ_ONLY));
            supported("supportsResultSetConcurrency, to update", SCROLLING, kind ->
                    metadata.supportsResultSetConcurrency(kind, ResultSet.CONCUR_UPDATABLE));
            supported("supportsResultSetHoldability", HOLDABILITY, metadata::supportsResultSetHoldability);
            supported("supportsTransactionIsolationLevel", ISOLATION, metadata::supportsTransactionIsolationLevel);
            supported("ownInsertsAreVisible", SCROLLING, metadata::ownInsertsAreVisible);
            supported("ownUpdatesAreVisible", SCROLLING, metadata::ownUpdatesAreVisible);
            supported("ownDeletesAreVisible", SCROLLING, metadata::ownDeletesAreVisible);
            supported("othersInsertsAreVisible", SCROLLING, metadata::othersInsertsAreVisible);
            supported("othersUpdatesAreVisible", SCROLLING, metadata::othersUpdatesAreVisible);
            supported("othersDeletesAreVisible", SCROLLING, metadata::othersDeletesAreVisible);
            supported("insertsAreDetected", SCROLLING, metadata::insertsAreDetected);
            supported("updatesAreDetected", SCROLLING, metadata::updatesAreDetected);
            supported("deletesAreDetected", SCROLLING, metadata::deletesAreDetected);
            for (JDBCType from : TYPES) {
                facts.of("supportsConvert " + from, () -> {
                    List<String> found = new ArrayList<>();
                    for (JDBCType to : TYPES) {
                        if (metadata.supportsConvert(from.getVendorTypeNumber(), to.getVendorTypeNumber())) {
                            found.add(to.getName());
                        }
                    }
                    return found;
                });
            }
        }
    }

    private void supported(String fact, int[] kinds, Getter getter) {
        facts.of(fact, () -> {
            List<Integer> found = new ArrayList<>();
            for (int kind : kinds) {
                if (getter.of(kind)) {
                    found.add(kind);
                }
            }
            return found;
        });
    }
}
