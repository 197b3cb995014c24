// Command kagedvet is the vet tool of make check: public analyzers with kaged's rules, and one analyzer of kaged. It
// runs as go vet -vettool, which caches results per package.
package main

import (
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/OpenPeeDeeP/depguard/v2"
	"github.com/ashanbrown/forbidigo/v2/pkg/analyzer"
	"github.com/julz/importas"
	"github.com/polyfloyd/go-errorlint/errorlint"
)

func main() {
	unitchecker.Main(errorlint.NewAnalyzer(), forbidden(), aliases(), imports(), testTime)
}

// forbidden refuses calls that have a better replacement here, outside commands and tests.
func forbidden() *analysis.Analyzer {
	a := analyzer.NewAnalyzer()
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		if pass.Pkg.Name() == "main" {
			return nil, nil
		}
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			if !strings.HasSuffix(pass.Fset.Position(d.Pos).Filename, "_test.go") {
				report(d)
			}
		}
		return run(pass)
	}
	for _, pattern := range []string{
		`{p: ^fmt\.Print(|f|ln)$, msg: write to the command's own output so that tests can read it}`,
		`{p: ^(print|println)$, msg: write to the log}`,
		`{p: ^log\.(Print|Fatal|Panic).*$, msg: log with slog}`,
		`{p: ^http\.DefaultServeMux$, msg: name the mux}`,
	} {
		set(a, "p", pattern)
	}
	return a
}

// aliases requires the import names of generated packages.
func aliases() *analysis.Analyzer {
	a := importas.Analyzer
	set(a, "alias", `kaged\.dev/proto/gen/kaged/(\w+)/v1:${1}v1`)
	return a
}

// imports refuses packages, each with the reason.
func imports() *analysis.Analyzer {
	a, err := depguard.NewAnalyzer(&depguard.LinterSettings{
		"all": &depguard.List{
			Deny: map[string]string{
				"github.com/pkg/errors": "use fault or errors: one kind of wrapping",
				"io/ioutil":             "use io and os",
				"gopkg.in/yaml":         "use goccy/go-yaml: it reports line and column",
			},
		},
		"product": &depguard.List{
			Files: []string{"!**/*_test.go", "!**/testkit/**", "!**/*test/**"},
			Deny: map[string]string{
				"testing":    "production code does not import testing",
				"math/rand$": "use math/rand/v2, or crypto/rand for secrets", // testing/quick needs it in tests
			},
		},
	})
	if err != nil {
		panic(err) // the rules above are constant
	}
	return a
}

func set(a *analysis.Analyzer, flag, value string) {
	if err := a.Flags.Set(flag, value); err != nil {
		panic(err) // the rules above are constant
	}
}
