import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.Lob;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Entities whose tables Hibernate makes and updates, and which it writes and finds; argument: the URL. */
public final class Hibernate implements Probes.Probe {
    private static final LocalDateTime WHEN = LocalDateTime.of(2026, 2, 28, 23, 59, 59, 123_000_000);

    enum Kind { SMALL, LARGE }

    @Entity(name = "Author")
    @Table(name = "authors")
    static class Author {
        @Id @GeneratedValue(strategy = GenerationType.UUID) UUID id;
        @Column(length = 10, nullable = false, unique = true) String name;
    }

    @Entity(name = "Book")
    @Table(name = "books", indexes = @Index(name = "books_made", columnList = "made"))
    static class Book {
        @Id long id;
        @Version int version;
        @Column(length = 20, nullable = false) String title;
        @Column(precision = 10, scale = 2) BigDecimal price;
        @Enumerated(EnumType.STRING) Kind kind;
        Kind size;
        LocalDateTime made;
        Instant seen;
        LocalDate day;
        LocalTime clock;
        boolean open;
        Double weight;
        byte[] picture;
        UUID code;
        @Lob String text;
        @ManyToOne Author author;

        List<Object> values() {
            return Arrays.asList(version, title, price, kind, size, made, seen, day, clock, open, weight, picture, code, text,
                    author == null ? null : author.name);
        }
    }

    /** The same table, as the next version of the application has it. */
    @Entity(name = "BookWithPages")
    @Table(name = "books")
    static class BookWithPages {
        @Id long id;
        Integer pages;
    }

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        List<String> warnings = new ArrayList<>();
        Logger.getLogger("org.hibernate").addHandler(new Warnings(warnings));
        facts.step("make tables", () -> open(arguments[0], Author.class, Book.class).close());
        facts.step("make them again", () -> open(arguments[0], Author.class, Book.class).close());
        facts.step("add a column", () -> open(arguments[0], BookWithPages.class).close());
        facts.value("warnings", warnings);
        try (SessionFactory sessions = open(arguments[0], Author.class, Book.class)) {
            write(facts, sessions);
            query(facts, sessions);
            change(facts, sessions);
        }
    }

    private static SessionFactory open(String url, Class<?>... entities) {
        Configuration configuration = new Configuration().addAnnotatedClasses(entities)
                .setProperty("hibernate.connection.url", url)
                .setProperty("hibernate.connection.driver_class", "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver")
                .setProperty("hibernate.connection.autocommit", "true")
                .setProperty("hibernate.dialect", "LanceGatewayDialect")
                .setProperty("hibernate.hbm2ddl.auto", "update");
        return configuration.buildSessionFactory();
    }

    private static void write(Facts facts, SessionFactory sessions) {
        facts.step("persist", () -> sessions.inTransaction(session -> {
            Author author = new Author();
            author.name = "Ann";
            session.persist(author);
            Book book = book(1, "One");
            book.price = new BigDecimal("1.50");
            book.kind = Kind.LARGE;
            book.size = Kind.SMALL;
            book.made = WHEN;
            book.seen = Instant.parse("2026-02-28T23:59:59.123Z");
            book.day = WHEN.toLocalDate();
            book.clock = LocalTime.of(1, 2, 3);
            book.open = true;
            book.weight = 0.25;
            book.picture = new byte[] {0, -1};
            book.code = new UUID(1, 2);
            book.text = "long";
            book.author = author;
            session.persist(book);
        }));
        facts.step("persist many", () -> sessions.inTransaction(session -> {
            for (int number = 2; number <= 4; number++) {
                session.persist(book(number, "Book " + number));
            }
        }));
        facts.step("persist a title that is too long", () -> sessions.inTransaction(session ->
                session.persist(book(5, "0123456789 0123456789"))));
        facts.of("found", () -> sessions.fromSession(session -> session.find(Book.class, 1L).values()));
        facts.of("found without values", () -> sessions.fromSession(session -> session.find(Book.class, 2L).values()));
    }

    private static void query(Facts facts, SessionFactory sessions) {
        facts.of("by conditions", () -> sessions.fromSession(session -> session.createSelectionQuery(
                "select b.id from Book b where b.author.name like :name and b.price > :price and b.kind = :kind and b.made = :made "
                        + "and b.code = :code and b.day >= :day and b.id in (:ids)", Long.class)
                .setParameter("name", "A%").setParameter("price", new BigDecimal("1.00")).setParameter("kind", Kind.LARGE)
                .setParameter("made", WHEN).setParameter("code", new UUID(1, 2)).setParameter("day", WHEN.toLocalDate())
                .setParameter("ids", List.of(1L, 2L)).getResultList()));
        facts.of("by a pattern", () -> sessions.fromSession(session -> session.createSelectionQuery(
                "select id from Book where lower(title) like concat('%', :part, '%') escape '!' order by id", Long.class)
                .setParameter("part", "!book").getResultList()));
        facts.of("groups", () -> sessions.fromSession(session -> session.createSelectionQuery(
                "select a.name, count(b), sum(b.price) from Book b left join b.author a group by a.name having count(b) > 0 "
                        + "order by a.name nulls last", Object[].class).getResultList()));
        facts.of("page", () -> sessions.fromSession(session -> session.createSelectionQuery(
                "select id from Book order by id", Long.class).setFirstResult(1).setMaxResults(2).getResultList()));
    }

    private static void change(Facts facts, SessionFactory sessions) {
        Book stale = sessions.fromSession(session -> session.find(Book.class, 2L));
        facts.step("update", () -> sessions.inTransaction(session -> session.find(Book.class, 2L).title = "New"));
        facts.step("update what is stale", () -> sessions.inTransaction(session -> {
            stale.title = "Old";
            session.merge(stale);
        }));
        facts.of("updated", () -> sessions.fromSession(session -> session.find(Book.class, 2L).values().subList(0, 2)));
        facts.of("update by HQL", () -> sessions.fromTransaction(session -> session.createMutationQuery(
                "update Book set weight = coalesce(weight, 0) + 1 where id <= :id").setParameter("id", 2L).executeUpdate()));
        facts.of("delete by HQL", () -> sessions.fromTransaction(session -> session.createMutationQuery(
                "delete Book where id = :id").setParameter("id", 3L).executeUpdate()));
        facts.step("remove", () -> sessions.inTransaction(session -> session.remove(session.find(Book.class, 4L))));
        facts.step("lock", () -> sessions.inTransaction(session ->
                session.find(Book.class, 1L, LockModeType.PESSIMISTIC_WRITE)));
        facts.of("left", () -> sessions.fromSession(session -> session.createSelectionQuery(
                "select id, weight from Book order by id", Object[].class).getResultList()));
    }

    private static Book book(long id, String title) {
        Book book = new Book();
        book.id = id;
        book.title = title;
        return book;
    }

    /** Collects what Hibernate warns of while it makes tables: it goes on when a definition fails. */
    private static final class Warnings extends Handler {
        private final List<String> texts;

        Warnings(List<String> texts) {
            this.texts = texts;
        }

        @Override
        public void publish(LogRecord told) {
            if (told.getLevel().intValue() >= Level.WARNING.intValue() && !told.getMessage().contains("HHH10001002")) {
                texts.add(told.getMessage());
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}
