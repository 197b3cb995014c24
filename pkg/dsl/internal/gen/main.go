// Command gen writes the JSON Schema of the project file to docs/reference.
package main

import (
	"log"
	"os"

	"kaged.dev/pkg/dsl"
)

func main() {
	schema, err := dsl.Schema(dsl.Version)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("../../docs/reference/project.schema.json", append(schema, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}
