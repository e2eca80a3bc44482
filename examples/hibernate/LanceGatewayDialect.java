import java.sql.DatabaseMetaData;
import java.sql.SQLException;
import org.hibernate.boot.model.TypeContributions;
import org.hibernate.dialect.DatabaseVersion;
import org.hibernate.dialect.PostgreSQLDialect;
import org.hibernate.dialect.sequence.NoSequenceSupport;
import org.hibernate.dialect.sequence.SequenceSupport;
import org.hibernate.dialect.unique.AlterTableUniqueDelegate;
import org.hibernate.dialect.unique.UniqueDelegate;
import org.hibernate.engine.jdbc.env.spi.IdentifierHelper;
import org.hibernate.engine.jdbc.env.spi.IdentifierHelperBuilder;
import org.hibernate.mapping.UniqueKey;
import org.hibernate.service.ServiceRegistry;
import org.hibernate.tool.schema.extract.internal.InformationExtractorJdbcDatabaseMetaDataImpl;
import org.hibernate.tool.schema.extract.internal.SequenceInformationExtractorNoOpImpl;
import org.hibernate.tool.schema.extract.spi.ExtractionContext;
import org.hibernate.tool.schema.extract.spi.InformationExtractor;
import org.hibernate.tool.schema.extract.spi.SequenceInformationExtractor;
import org.hibernate.type.SqlTypes;
import org.hibernate.type.descriptor.jdbc.LongVarcharJdbcType;
import org.hibernate.type.descriptor.jdbc.VarbinaryJdbcType;
import org.hibernate.type.descriptor.jdbc.VarcharJdbcType;
import org.hibernate.type.descriptor.jdbc.spi.JdbcTypeRegistry;

/**
 * Lance Gateway for Hibernate 7.4, over the Arrow Flight SQL JDBC driver: PostgreSQL's SQL without sequences, with
 * unique and foreign keys as notes, and with the metadata of JDBC in place of pg_catalog.
 */
public class LanceGatewayDialect extends PostgreSQLDialect {
    private final UniqueDelegate uniqueKeys = new AlterTableUniqueDelegate(this) {
        @Override
        protected String uniqueConstraintSql(UniqueKey key) {
            return super.uniqueConstraintSql(key) + " not enforced";
        }
    };

    public LanceGatewayDialect() {
        super(DatabaseVersion.make(16));
    }

    @Override
    public UniqueDelegate getUniqueDelegate() {
        return uniqueKeys;
    }

    @Override
    public String getAddForeignKeyConstraintString(
            String name, String[] columns, String table, String[] key, boolean referencesKey) {
        return super.getAddForeignKeyConstraintString(name, columns, table, key, referencesKey) + " not enforced";
    }

    /** The driver does not list indexes, so that Hibernate would make them again at each start. */
    @Override
    public String getCreateIndexString(boolean unique) {
        return "create index if not exists";
    }

    @Override
    public SequenceSupport getSequenceSupport() {
        return NoSequenceSupport.INSTANCE;
    }

    @Override
    public String getQuerySequencesString() {
        return null;
    }

    @Override
    public SequenceInformationExtractor getSequenceInformationExtractor() {
        return SequenceInformationExtractorNoOpImpl.INSTANCE;
    }

    @Override
    public InformationExtractor getInformationExtractor(ExtractionContext context) {
        return new InformationExtractorJdbcDatabaseMetaDataImpl(context);
    }

    @Override
    public String getCurrentSchemaCommand() {
        return "select 'main'";
    }

    /** The driver says that names are stored in upper case; they are stored in lower case, as in PostgreSQL. */
    @Override
    public IdentifierHelper buildIdentifierHelper(IdentifierHelperBuilder builder, DatabaseMetaData metadata)
            throws SQLException {
        return super.buildIdentifierHelper(builder, null);
    }

    /** The driver counts the rows of a batch together, which Hibernate takes for too many of its first row. */
    @Override
    public Boolean supportsBatchUpdates() {
        return false;
    }

    @Override
    public int getDefaultStatementBatchSize() {
        return 0;
    }

    @Override
    protected String columnType(int code) {
        return switch (code) {
            case SqlTypes.CLOB, SqlTypes.NCLOB -> "text";
            case SqlTypes.BLOB -> "bytea";
            default -> super.columnType(code);
        };
    }

    /** The driver binds neither UUIDs nor streams. */
    @Override
    public void contributeTypes(TypeContributions contributions, ServiceRegistry services) {
        super.contributeTypes(contributions, services);
        JdbcTypeRegistry types = contributions.getTypeConfiguration().getJdbcTypeRegistry();
        types.addDescriptor(SqlTypes.UUID, VarcharJdbcType.INSTANCE);
        types.addDescriptor(SqlTypes.CLOB, LongVarcharJdbcType.INSTANCE);
        types.addDescriptor(SqlTypes.BLOB, VarbinaryJdbcType.INSTANCE);
    }
}
