import static org.jooq.impl.DSL.constraint;
import static org.jooq.impl.DSL.count;
import static org.jooq.impl.DSL.excluded;
import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.inline;
import static org.jooq.impl.DSL.name;
import static org.jooq.impl.DSL.select;
import static org.jooq.impl.DSL.table;
import static org.jooq.impl.DSL.val;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.UUID;
import org.jooq.DSLContext;
import org.jooq.Field;
import org.jooq.Record;
import org.jooq.SQLDialect;
import org.jooq.Table;
import org.jooq.conf.Settings;
import org.jooq.conf.StatementType;
import org.jooq.impl.DSL;
import org.jooq.impl.SQLDataType;

/** A table that jOOQ makes, alters, writes, reads and describes; argument: the URL. */
public final class Jooq implements Probes.Probe {
    private static final Table<Record> PAGES = table(name("pages"));
    private static final Field<Long> ID = field(name("id"), SQLDataType.BIGINT.notNull());
    private static final Field<String> PATH = field(name("path"), SQLDataType.VARCHAR(20).notNull());
    private static final Field<BigDecimal> PRICE = field(name("price"), SQLDataType.DECIMAL(10, 2));
    private static final Field<LocalDateTime> MADE = field(name("made"), SQLDataType.LOCALDATETIME(6));
    private static final Field<LocalDate> DAY = field(name("day"), SQLDataType.LOCALDATE);
    private static final Field<Boolean> OPEN = field(name("open"), SQLDataType.BOOLEAN);
    private static final Field<byte[]> PICTURE = field(name("picture"), SQLDataType.BLOB);
    private static final Field<UUID> CODE = field(name("code"),
            SQLDataType.VARCHAR(36).asConvertedDataType(UUID.class, UUID::fromString, UUID::toString));
    private static final LocalDateTime WHEN = LocalDateTime.of(2026, 2, 28, 23, 59, 59, 123_456_000);

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            Settings inlined = new Settings().withStatementType(StatementType.STATIC_STATEMENT);
            DSLContext sql = DSL.using(connection, SQLDialect.POSTGRES, inlined);
            DSLContext prepared = DSL.using(connection, SQLDialect.POSTGRES);
            define(facts, sql);
            write(facts, sql, prepared);
            read(facts, sql, prepared);
            describe(facts, DSL.using(connection));
        }
    }

    private static void define(Facts facts, DSLContext sql) {
        facts.of("create", () -> sql.createTableIfNotExists(PAGES).columns(ID, PATH, PRICE, MADE, DAY, OPEN, PICTURE, CODE)
                .constraints(constraint("pages_key").primaryKey(ID), constraint("pages_prices").check(PRICE.ge(inline(BigDecimal.ZERO))),
                        constraint("pages_paths").unique(PATH).notEnforced()).execute());
        facts.of("add a column", () -> sql.alterTable(PAGES).addColumn("note", SQLDataType.VARCHAR(10)).execute());
        facts.of("set a default", () -> sql.alterTable(PAGES).alterColumn("note").setDefault("none").execute());
        facts.of("widen a column", () -> sql.alterTable(PAGES).alterColumn("note").set(SQLDataType.VARCHAR(50)).execute());
        facts.of("rename a column", () -> sql.alterTable(PAGES).renameColumn("note").to("remark").execute());
        facts.of("index", () -> sql.createIndex("pages_made").on(PAGES, MADE).execute());
        facts.of("a view", () -> sql.createOrReplaceView("paths").as(select(ID, PATH).from(PAGES)).execute());
    }

    private static void write(Facts facts, DSLContext sql, DSLContext prepared) {
        facts.of("insert", () -> sql.insertInto(PAGES, ID, PATH, PRICE, MADE, DAY, OPEN, CODE)
                .values(1L, "/'a\\b", new BigDecimal("1.5"), WHEN, WHEN.toLocalDate(), true, new UUID(1, 2)).execute());
        facts.of("insert bytes", () -> prepared.insertInto(PAGES, ID, PATH, PICTURE).values(2L, "/b", new byte[] {0, 39, -1}).execute());
        facts.of("insert in a batch", () -> prepared.batch(prepared.insertInto(PAGES, ID, PATH).values((Long) null, null))
                .bind(3L, "/c").bind(4L, "/d").execute());
        facts.of("insert returning", () -> sql.insertInto(PAGES, ID, PATH).values(5L, "/e")
                .returningResult(ID, field(name("remark"), String.class)).fetch().intoArrays());
        facts.of("upsert", () -> sql.insertInto(PAGES, ID, PATH, PRICE).values(3L, "/c", new BigDecimal("7")).values(6L, "/f", null)
                .onConflict(ID).doUpdate().set(PRICE, excluded(PRICE)).execute());
        facts.of("ignore", () -> sql.insertInto(PAGES, ID, PATH).values(3L, "/x").values(7L, "/g").onConflictDoNothing().execute());
        Field<Long> key = field(name("k"), Long.class);
        facts.of("merge", () -> sql.mergeInto(PAGES).using(select(val(4L).as("k")).unionAll(select(val(8L)))).on(ID.eq(key))
                .whenMatchedThenUpdate().set(PATH, "/merged").whenNotMatchedThenInsert(ID, PATH).values(key, val("/new")).execute());
        facts.of("update", () -> sql.update(PAGES).set(PRICE, PRICE.plus(1)).where(ID.in(1L, 3L)).execute());
        facts.of("delete", () -> sql.deleteFrom(PAGES).where(ID.ge(7L)).execute());
        facts.of("a row that a check refuses", () -> sql.update(PAGES).set(PRICE, new BigDecimal("-1")).where(ID.eq(1L)).execute());
    }

    private static void read(Facts facts, DSLContext sql, DSLContext prepared) {
        facts.of("rows", () -> sql.select(ID, PATH, PRICE).from(PAGES).orderBy(ID).fetch().intoArrays());
        facts.of("values", () -> sql.select(MADE, DAY, OPEN, CODE).from(PAGES)
                .where(MADE.eq(WHEN).and(DAY.eq(WHEN.toLocalDate())).and(CODE.eq(new UUID(1, 2)))).fetchSingle().intoArray());
        facts.of("bytes", () -> sql.select(PICTURE).from(PAGES).where(ID.eq(2L)).fetchSingle(PICTURE));
        facts.of("patterns", () -> sql.select(ID).from(PAGES).where(PATH.startsWith("/'a\\").or(PATH.containsIgnoreCase("MERGE")))
                .orderBy(ID).fetch(ID));
        facts.of("patterns, bound", () -> prepared.select(ID).from(PAGES).where(PATH.endsWith("\\b")).fetch(ID));
        facts.of("groups", () -> sql.select(OPEN, count()).from(PAGES).groupBy(OPEN).having(count().gt(1)).fetch().intoArrays());
        facts.of("page", () -> prepared.select(ID).from(PAGES).orderBy(ID).seek(2L).limit(2).fetch(ID));
        facts.of("view", () -> sql.fetchCount(table(name("paths"))));
    }

    private static void describe(Facts facts, DSLContext sql) {
        facts.of("described", () -> {
            Table<?> table = sql.meta().getTables("pages").get(0);
            return Arrays.asList(table.getPrimaryKey().getFields().size(), table.getPrimaryKey().getFields().get(0).getName(),
                    table.fieldStream().map(column -> column.getName() + " " + column.getDataType().getCastTypeName()).toList());
        });
    }
}
