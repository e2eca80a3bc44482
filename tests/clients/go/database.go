package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/driver"
)

// endless is a statement that does not end by itself.
const endless = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 8"

// open opens a database; a certificate authority is a file that LANCE_GATEWAY_CA names, as tls=authority in the DSN.
func open(dsn string) (*sql.DB, error) {
	if path := os.Getenv("LANCE_GATEWAY_CA"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		if err := driver.RegisterTLSConfig("authority", &tls.Config{RootCAs: roots}); err != nil {
			return nil, err
		}
	}
	return sql.Open("flightsql", dsn)
}

// query tells the rows of one statement.
func query(ctx context.Context, dsn, statement string) error {
	db, err := open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	tell("rows", func() (any, error) { return rows(ctx, db, statement) })
	return nil
}

// database tells what database/sql gets.
func database(ctx context.Context, dsn string) error {
	db, err := open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ask := func(fact, statement string, arguments ...any) {
		tell(fact, func() (any, error) { return rows(ctx, db, statement, arguments...) })
	}
	change := func(fact, statement string, arguments ...any) {
		tell(fact, func() (any, error) {
			result, err := db.ExecContext(ctx, statement, arguments...)
			if err != nil {
				return nil, err
			}
			return result.RowsAffected()
		})
	}

	tell("ping", func() (any, error) { return true, db.PingContext(ctx) })
	ask("query", "SELECT id, customer, amount FROM orders WHERE id < 2 ORDER BY id")
	ask("no rows", "SELECT id FROM orders WHERE id < 0")
	ask("bound", "SELECT id FROM orders WHERE id = ? AND customer = ? AND amount < ?", 7, "customer 0", 10.5)
	ask("bound by number", "SELECT id FROM orders WHERE id = $2 AND amount > $1", 1.0, int64(8))
	ask("bound bool", "SELECT id FROM typed WHERE bool_ = ?", true)
	ask("bound timestamp", "SELECT id FROM typed WHERE timestamp_us = ?", time.Now())
	ask("bound timestamp as text",
		"SELECT id FROM typed WHERE timestamp_us = CAST(CAST(? AS VARCHAR) AS TIMESTAMP)", "2026-02-28 23:59:58.123456")
	ask("bound NULL", "SELECT id FROM orders WHERE amount IS NOT DISTINCT FROM ?", nil)
	ask("too few", "SELECT id FROM orders WHERE id = ?")
	ask("syntax", "SELEC 1")
	ask("unknown table", "SELECT * FROM ordres")
	ask("fails while it is read", "SELECT 1 / (id - id) FROM orders")
	for _, column := range []string{
		"bool_", "int8_", "int16_", "int32_", "int64_", "uint8_", "uint16_", "uint32_", "uint64_", "float16_", "float32_",
		"float64_", "decimal128_", "decimal256_", "string_", "large_string_", "binary_", "large_binary_", "fixed_binary",
		"date32_", "date64_", "time32_s", "time64_ns", "timestamp_s", "timestamp_us", "instant_utc", "instant_berlin",
		"duration_s", "list_", "fixed_list", "struct_",
	} {
		ask("column "+column, fmt.Sprintf("SELECT %s FROM typed ORDER BY id", column))
	}
	tell("rows one by one", func() (any, error) {
		result, err := db.QueryContext(ctx, "SELECT value FROM generate_series(1, 200000)")
		if err != nil {
			return nil, err
		}
		defer result.Close()
		count := 0
		for result.Next() {
			count++
		}
		return count, result.Err()
	})
	tell("out of time", func() (any, error) {
		limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		return rows(limited, db, endless)
	})
	change("CREATE TABLE", "CREATE TABLE go_notes (id BIGINT PRIMARY KEY, text VARCHAR, score DOUBLE)")
	change("INSERT", "INSERT INTO go_notes VALUES (1, 'a', 1), (2, 'b', 2)")
	change("bound INSERT", "INSERT INTO go_notes VALUES (?, ?, ?)", 3, "c", 3.5)
	change("UPDATE", "UPDATE go_notes SET score = score + ? WHERE id < ?", 1.0, 3)
	change("DELETE", "DELETE FROM go_notes WHERE id = 1")
	change("INSERT of NULL as key", "INSERT INTO go_notes VALUES (NULL, 'x', 1)")
	ask("what they left", "SELECT * FROM go_notes ORDER BY id")
	ask("RETURNING", "INSERT INTO go_notes VALUES (4, 'd', 4) RETURNING id")
	transaction := func(fact string, end func(*sql.Tx) error) {
		tell(fact, func() (any, error) {
			begun, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			if _, err := begun.ExecContext(ctx, "INSERT INTO go_notes VALUES (?, 't', 0)", 9); err != nil {
				return nil, err
			}
			if err := end(begun); err != nil {
				return nil, err
			}
			return rows(ctx, db, "SELECT id FROM go_notes WHERE id = 9")
		})
	}
	transaction("a transaction that is rolled back", (*sql.Tx).Rollback)
	transaction("a transaction that is committed", (*sql.Tx).Commit)
	change("DROP TABLE", "DROP TABLE go_notes")
	tell("a pool of connections", func() (any, error) {
		answers := make(chan error)
		for range 8 {
			go func() {
				_, err := rows(ctx, db, "SELECT count(*) FROM orders WHERE id < ?", 500)
				answers <- err
			}()
		}
		for range 8 {
			if err := <-answers; err != nil {
				return nil, err
			}
		}
		return true, nil
	})
	return nil
}

// rows reads a result whole.
func rows(ctx context.Context, db *sql.DB, statement string, arguments ...any) ([][]any, error) {
	result, err := db.QueryContext(ctx, statement, arguments...)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	columns, err := result.Columns()
	if err != nil {
		return nil, err
	}
	found := [][]any{}
	for result.Next() {
		row := make([]any, len(columns))
		places := make([]any, len(columns))
		for place := range row {
			places[place] = &row[place]
		}
		if err := result.Scan(places...); err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, result.Err()
}
