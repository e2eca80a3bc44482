// What Arrow's Flight SQL client for Go, and its driver for database/sql, get from a gateway.
//
// Each finding is a JSON line: {"fact": name, "value": ...} or {"fact": name, "error": text, "code": status}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/grpc/status"
)

// tell runs a call and prints what it returned, or how it failed.
func tell(fact string, call func() (any, error)) {
	line := map[string]any{"fact": fact}
	if value, err := call(); err != nil {
		line["error"] = err.Error()
		line["code"] = status.Code(err).String()
	} else {
		line["value"] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		text, _ = json.Marshal(map[string]any{"fact": fact, "error": err.Error(), "code": "Unknown"})
	}
	fmt.Println(string(text))
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: clients client ADDRESS | database DSN | query DSN STATEMENT")
		os.Exit(2)
	}
	var err error
	switch ctx := context.Background(); os.Args[1] {
	case "client":
		err = client(ctx, os.Args[2])
	case "database":
		err = database(ctx, os.Args[2])
	case "query":
		err = query(ctx, os.Args[2], os.Args[3])
	default:
		err = fmt.Errorf("%q is none of client, database and query", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
