//go:build cgo

package core_test

import (
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core"
	"kaged.dev/services/tool-runner/internal/core/syntax"
)

// A grammar that does not work keeps the service from starting, and is named (T-FM-01).
func TestABrokenGrammarRefusesTheStart(t *testing.T) {
	t.Parallel()
	languages := append([]*syntax.Language{{Name: "cobol"}}, syntax.Languages()...)
	runner, err := core.New(core.Options{}, core.Deps{Languages: languages})
	if runner != nil || !errors.Is(err, fault.Internal) || !strings.Contains(err.Error(), "cobol") {
		t.Errorf("%v, %v", runner, err)
	}
}
