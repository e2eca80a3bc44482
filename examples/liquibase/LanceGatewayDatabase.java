import liquibase.CatalogAndSchema;
import liquibase.database.DatabaseConnection;
import liquibase.database.core.PostgresDatabase;
import liquibase.exception.DatabaseException;
import liquibase.structure.DatabaseObject;
import liquibase.structure.core.Index;

/** Lance Gateway for Liquibase 4.33, over the Arrow Flight SQL JDBC driver: names in lower case, and each statement committed when it returns. */
public class LanceGatewayDatabase extends PostgresDatabase {
    private static final String NAME = "Lance Gateway";

    public LanceGatewayDatabase() {
    }

    @Override
    public int getPriority() {
        return PRIORITY_DATABASE;
    }

    @Override
    public String getShortName() {
        return "lance_gateway";
    }

    @Override
    protected String getDefaultDatabaseProductName() {
        return NAME;
    }

    @Override
    public boolean isCorrectDatabaseImplementation(DatabaseConnection connection) throws DatabaseException {
        return NAME.equals(connection.getDatabaseProductName());
    }

    @Override
    public String getDefaultDriver(String url) {
        return url.startsWith("jdbc:arrow-flight-sql:") ? "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver" : null;
    }

    @Override
    public Integer getDefaultPort() {
        return 31337;
    }

    @Override
    public String getConnectionCatalogName() {
        return "lance";
    }

    @Override
    protected String getConnectionSchemaName() {
        return "main";
    }

    @Override
    public boolean isCaseSensitive() {
        return false;
    }

    @Override
    public CatalogAndSchema.CatalogAndSchemaCase getSchemaAndCatalogCase() {
        return CatalogAndSchema.CatalogAndSchemaCase.LOWER_CASE;
    }

    @Override
    public boolean supportsCatalogInObjectName(Class<? extends DatabaseObject> type) {
        return false;
    }

    /** An index is in the schema of its table. */
    @Override
    public String escapeIndexName(String catalog, String schema, String index) {
        return escapeObjectName(index, Index.class);
    }

    /** The gateway does not tell the text of views. */
    @Override
    public String getViewDefinition(CatalogAndSchema schema, String view) {
        return null;
    }

    @Override
    public boolean isSystemObject(DatabaseObject object) {
        return super.isSystemObject(object)
                || (object.getSchema() != null && "system".equals(object.getSchema().getName()));
    }

    @Override
    public boolean supportsDDLInTransaction() {
        return false;
    }

    @Override
    public boolean supportsAutoIncrement() {
        return false;
    }

    @Override
    public boolean supportsSequences() {
        return false;
    }

    @Override
    public boolean supportsInitiallyDeferrableColumns() {
        return false;
    }

    @Override
    public boolean supportsTablespaces() {
        return false;
    }
}
