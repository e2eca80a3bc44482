import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;

/** What there is to query, as DatabaseMetaData lists it. */
public final class Catalog implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData metadata = connection.getMetaData();
            facts.records("catalogs", metadata::getCatalogs);
            facts.records("schemas", metadata::getSchemas);
            facts.records("schemas like", () -> metadata.getSchemas("lance", "m%"));
            facts.records("schemas elsewhere", () -> metadata.getSchemas("elsewhere", null));
            facts.records("table types", metadata::getTableTypes);
            facts.records("tables", () -> metadata.getTables(null, null, null, null));
            facts.records("tables %", () -> metadata.getTables("lance", "main", "%", new String[] {"TABLE", "VIEW"}));
            facts.records("tables order_", () -> metadata.getTables(null, "%", "order_", null));
            facts.records("tables big\\_orders", () -> metadata.getTables(null, null, "big\\_orders", null));
            facts.records("tables orders\\_", () -> metadata.getTables(null, null, "orders\\_", null));
            facts.records("tables ORDERS", () -> metadata.getTables("LANCE", "MAIN", "ORDERS", null));
            facts.records("columns ORDERS", () -> metadata.getColumns(null, "MAIN", "ORDERS", null));
            facts.records("primary keys ORDERS", () -> metadata.getPrimaryKeys(null, "MAIN", "ORDERS"));
            facts.records("views", () -> metadata.getTables(null, null, "%", new String[] {"VIEW"}));
            facts.records("columns", () -> metadata.getColumns(null, null, "orders", null));
            facts.records("columns of types", () -> metadata.getColumns(null, null, "types", "%"));
            facts.records("columns like", () -> metadata.getColumns(null, "main", "order%", "%mo%"));
            facts.records("primary keys", () -> metadata.getPrimaryKeys(null, null, "orders"));
            facts.records("primary keys in schema", () -> metadata.getPrimaryKeys("lance", "main", "orders"));
            facts.records("imported keys", () -> metadata.getImportedKeys(null, null, "orders"));
            facts.records("exported keys", () -> metadata.getExportedKeys(null, null, "orders"));
            facts.records("cross reference", () -> metadata.getCrossReference(null, null, "orders", null, null, "orders"));
            facts.records("type info", metadata::getTypeInfo);
            facts.records("index info", () -> metadata.getIndexInfo(null, null, "orders", false, true));
            facts.records("procedures", () -> metadata.getProcedures(null, null, "%"));
            facts.records("procedure columns", () -> metadata.getProcedureColumns(null, null, "%", "%"));
            facts.records("functions", () -> metadata.getFunctions(null, null, "%"));
            facts.records("function columns", () -> metadata.getFunctionColumns(null, null, "%", "%"));
            facts.records("column privileges", () -> metadata.getColumnPrivileges(null, null, "orders", "%"));
            facts.records("table privileges", () -> metadata.getTablePrivileges(null, null, "%"));
            facts.records("best row identifier", () ->
                    metadata.getBestRowIdentifier(null, null, "orders", DatabaseMetaData.bestRowSession, true));
            facts.records("version columns", () -> metadata.getVersionColumns(null, null, "orders"));
            facts.records("user-defined types", () -> metadata.getUDTs(null, null, "%", null));
            facts.records("super types", () -> metadata.getSuperTypes(null, null, "%"));
            facts.records("super tables", () -> metadata.getSuperTables(null, null, "%"));
            facts.records("attributes", () -> metadata.getAttributes(null, null, "%", "%"));
            facts.records("pseudo columns", () -> metadata.getPseudoColumns(null, null, "%", "%"));
            facts.records("client info", metadata::getClientInfoProperties);
        }
    }
}
