package ignore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A line that goes on for as long as its file is put together once, not once for each of its parts.
func TestContinuedLinesCostNoMore(t *testing.T) { // not parallel: it counts allocations
	text := "[core]\n" + strings.Repeat("a\\\n", 20_000) + "b\n"
	var last string
	if n := testing.AllocsPerRun(1, func() {
		for line := range logicalLines(text) {
			last = line
		}
	}); n > 100 {
		t.Errorf("%v allocations", n)
	}
	if len(last) != 20_001 {
		t.Errorf("the line has %d bytes", len(last))
	}
}

// For any nesting of includes in a repository's files, the bytes read are bounded; settings read
// until then count.
func TestConfigurationIncludedAgainAndAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := filepath.Join(dir, "config")
	body := "[core]\nexcludesFile = x\n" + strings.Repeat("[include]\npath = config\n", 10)
	body += "# " + strings.Repeat("x", maxConfigSize/4-len(body)-2)
	if err := os.WriteFile(own, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	reads := 0
	r := newConfigReader(dir, dir)
	r.mayRead = func(string) bool { reads++; return true }
	r.read(own, 0)
	if r.bytes != 0 || reads <= 4 {
		t.Errorf("%d bytes are left of %d, after %d includes", r.bytes, maxConfigSize, reads)
	}
	if got := r.values["core.excludesfile"]; got != "x" {
		t.Errorf("core.excludesFile is %q", got)
	}
}

// Conditions that each try every way to match take from one budget: those behind it do not hold, those before it do.
func TestConditionsShareTheirSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hostile := strings.Repeat("**/a/", 20) + "b"
	for name, content := range map[string]string{
		"HEAD":   "ref: refs/heads/" + strings.Repeat("a/", 100) + "a",
		"before": "[seen]\nbefore\n", "behind": "[seen]\nbehind\n", "detached": "[seen]\ndetached\n",
		"config": "[includeIf \"onbranch:**\"]\npath = before\n" +
			strings.Repeat(fmt.Sprintf("[includeIf \"onbranch:%s\"]\npath = x\n", hostile), 50) +
			"[includeIf \"onbranch:**\"]\npath = behind\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := newConfigReader(dir, dir)
	r.read(filepath.Join(dir, "config"), 0)
	if _, ok := r.values["seen.before"]; !ok {
		t.Error("a condition that holds does not")
	}
	if _, ok := r.values["seen.behind"]; ok || r.steps > 0 {
		t.Errorf("%d steps are left", r.steps)
	}
}

// A class is gone through for each byte it is held against, and a run of asterisks too; both take steps.
func TestLongClassesTakeSteps(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("b", 2*maxSteps)
	for _, pattern := range []string{
		"[" + long + "a]", "[" + strings.Repeat("[:", maxSteps) + "a]", strings.Repeat("*", 2*maxSteps) + "*a",
	} {
		if matched, left := wildmatch(pattern, "a", true, false, maxSubject); matched || left > maxSubject-maxSteps {
			t.Errorf("%.10q: %v, %d steps are left", pattern, matched, left)
		}
	}
	if matched, left := wildmatch("[[:alpha:]x-z]*[!b]", "abc", true, false, maxSubject); !matched ||
		left < maxSubject-100 {
		t.Errorf("an ordinary one: %v, %d steps are left", matched, left)
	}
}
