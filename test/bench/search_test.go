package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A figure with a rival is judged by the ratio, a figure without by its value.
func TestFigureAgainstARival(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		figure Figure
		met    bool
		ratio  float64
	}{
		{Figure{Value: 90, Rival: 100, Target: 1}, true, 0.9},
		{Figure{Value: 110, Rival: 100, Target: 1}, false, 1.1},
		{Figure{Value: 90, Target: 100}, true, 0},
		{Figure{Value: 110, Floor: 10, Target: 100}, false, 11},
		{Figure{Value: 5}, true, 0},
	} {
		if c.figure.Met() != c.met || c.figure.Ratio() != c.ratio {
			t.Errorf("%+v: met %v, ratio %g", c.figure, c.figure.Met(), c.figure.Ratio())
		}
	}
}

// Answers are equal only if lines, positions, texts and numbers are; the error names the difference.
func TestSameLines(t *testing.T) {
	t.Parallel()
	theirs := "./b\x0012:two\n./a\x003:one\r\n"
	const one, two = `{"file":"./a","line":3,"content":"one"}`, `{"file":"./b","line":12,"content":"two"}`
	for ours, same := range map[string]bool{
		`{"matches":[` + one + `,` + two +
			`],"total_matches":2,"truncated":false}`: true,
		`{"matches":[` + one +
			`],"total_matches":2,"truncated":true}`: true,
		`{"matches":[` + one +
			`],"total_matches":2,"truncated":false}`: false,
		`{"matches":[` + one +
			`],"total_matches":1,"truncated":false}`: false,
		`{"matches":[` + two +
			`],"total_matches":2,"truncated":true}`: false,
		`{"matches":[` + two + `,` + one +
			`],"total_matches":2,"truncated":false}`: false,
		`{"matches":[{"file":"./a","line":3,"content":"uno"},` + two +
			`],"total_matches":2,"truncated":false}`: false,
		`{"matches":[{"file":"./a","line":3,"content":"[truncated]ne"},` + two +
			`],"total_matches":2,"truncated":false}`: true,
		`{"matches":[{"file":"./a","line":4,"content":"one"},{"file":"./b","line":12,"content":"two"}],"total_matches":2}`: false,
		`{"matches":[],"total_matches":2,"truncated":true}`:                                                                false,
	} {
		if err := sameLines(ours, []byte(theirs)); (err == nil) != same {
			t.Errorf("%s: %v", ours, err)
		}
	}
	for ours, same := range map[string]bool{
		`{"matches":[{"file":"./a"},{"file":"./b"}],"total_matches":2}`: true,
		`{"matches":[{"file":"./a"},{"file":"./c"}],"total_matches":2}`: false,
		`{"matches":[{"file":"./a"}],"total_matches":1}`:                false,
	} {
		if err := sameNames(ours, []byte("./b\x00./a\x00")); (err == nil) != same {
			t.Errorf("%s: %v", ours, err)
		}
	}
}

// The files of a glob are compared with the peer's by their times.
func TestSameNewest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, name := range []string{"old", "new"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(int64(i), 0), time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	for ours, same := range map[string]bool{
		`{"files":["./new","./old"],"truncated":false}`: true,
		`{"files":["./old","./new"],"truncated":false}`: false,
		`{"files":["./new"],"truncated":false}`:         false,
		`{"files":["./new","./old"],"truncated":true}`:  false,
	} {
		if err := sameNewest(dir, ours, []byte("./old\x00new\x00")); (err == nil) != same {
			t.Errorf("%s: %v", ours, err)
		}
	}
}
