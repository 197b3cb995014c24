package projects_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
)

// An issue can be assigned to the workflows that the approved project file declares: another name is refused with the
// valid ones. T-ISSUE-UPDATE-06.
func TestDeclaredWorkflows(t *testing.T) {
	f := newFixture(t)
	declared := music + "workflows:\n  - {name: nightly, description: Sweeps., invokable_by: [operator]}\n"
	f.load(f.folder(yamlPath, declared, "prompts/primary.md", "You play.", "prompts/writer.md", "You write."))
	if err := f.Declares(f.ctx, "ada", "music", "nightly"); err != nil {
		t.Errorf("the declared workflow: %v", err)
	}
	err := f.Declares(f.ctx, "ada", "music", "weekly")
	refused(t, err, fault.ValidationFailed)
	if said := err.Error(); !strings.Contains(said, "nightly") {
		t.Errorf("the refusal says %q, want the names that there are", said)
	}
	refused(t, f.Declares(f.ctx, "eve", "music", "nightly"), fault.NotFound)
	refused(t, f.Declares(f.ctx, "ada", "noise", "nightly"), fault.NotFound)
}
