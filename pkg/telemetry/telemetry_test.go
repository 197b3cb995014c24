package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stderr gets text and the file gets JSON, each at its own level.
func TestLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stderr bytes.Buffer
	log, closeLog, err := NewLog(LogOptions{Stderr: &stderr, DataDir: dir, Name: "kaged", Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	log.With("service", "probe").WithGroup("g").Info("hello", "n", 1, "took", 2507123456*time.Nanosecond)
	log.Warn("careful")
	log.Debug("never")
	closeLog()
	if s := stderr.String(); strings.Contains(s, "hello") || !strings.Contains(s, "careful") {
		t.Errorf("stderr: %q", s)
	}
	data, err := os.ReadFile(filepath.Join(dir, "log", "kaged.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var first struct {
		Msg, Service string
		G            struct {
			N    int
			Took string
		}
	}
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &first) != nil || first.Msg != "hello" ||
		first.Service != "probe" || first.G.N != 1 || first.G.Took != "2.51s" {
		t.Errorf("file: %q", data)
	}
	if _, _, err := NewLog(LogOptions{Stderr: &stderr, Level: "loud"}); !errors.Is(err, fault.BadRequest) {
		t.Errorf("an unknown level: %v", err)
	}
}

// An event has exactly its own fields in JSON, without the attributes that the log adds to other records
// (H-OBS-LOG-01).
func TestEventsAreExact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stderr bytes.Buffer
	log, closeLog, err := NewLog(LogOptions{Stderr: &stderr, DataDir: dir, Name: "kaged", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	log.With("service", "harness").WithGroup("g").Info("agent.generation", "event", "agent.generation", "tokens_in", 3)
	closeLog()
	const want = `{"level":"info","event":"agent.generation","tokens_in":3}` + "\n"
	data, err := os.ReadFile(filepath.Join(dir, "log", "kaged.log"))
	if err != nil || string(data) != want || stderr.String() != want {
		t.Errorf("%v, file %q, stderr %q", err, data, stderr.String())
	}
}

// A full file is rotated, the oldest is removed, and no record is lost.
func TestRotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.log")
	r, err := openRotating(path, 100, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := fmt.Fprintf(r, "record %02d %s\n", i, strings.Repeat("x", 20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte("late")); err == nil {
		t.Error("a closed log took a record")
	}
	var got []string
	for _, name := range []string{path + ".2", path + ".1", path} {
		data, err := os.ReadFile(name)
		if err != nil || len(data) > 100 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		for line := range strings.Lines(string(data)) {
			got = append(got, line[7:9])
		}
	}
	if want := "12 13 14 15 16 17 18 19"; !strings.HasSuffix(strings.Join(got, " "), want) {
		t.Errorf("kept %v", got)
	}
	if _, err := os.Stat(path + ".3"); !os.IsNotExist(err) {
		t.Errorf("a third old file stayed: %v", err)
	}
}
