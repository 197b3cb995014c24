package issues_test

import (
	"os"
	"testing"

	"kaged.dev/services/issue/internal/core/issues"
)

// The reference page matches the state machine.
func TestThePageIsGenerated(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../../../docs/reference/issues.md")
	if err != nil || string(data) != issues.Page() {
		t.Errorf("docs/reference/issues.md is stale (%v); run make generate", err)
	}
}
