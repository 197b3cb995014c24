// Command gen writes docs/reference/cli.md. Run it with go generate in services/kaged/internal/cli.
package main

import (
	"bytes"
	"log"
	"os"

	"kaged.dev/services/kaged/internal/cli"
)

func main() {
	var b bytes.Buffer
	cli.WriteReference(&b)
	if err := os.WriteFile("../../../../docs/reference/cli.md", b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
