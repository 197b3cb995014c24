package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package main

import (
	"reflect"
	"time"
)

type Color int

type Point struct{ X, Y int }

type Base struct{ ID string }

type Value struct {
	Base
	Color  Color
	Wait   time.Duration
	At     *Point
	Points []Point
	Names  map[string]Point
	Max    int
	Secret string
}

type WirePoint struct{ X, Y int32 }

type Wire struct {
	Id     string
	Paint  int32
	WaitMs int64
	At     *WirePoint
	Points []*WirePoint
	Names  map[string]*WirePoint
	Max    *int32
}

//convert:both .wire fromWire Value *Wire Color=Paint <Secret="kept"
//convert:both wirePoint fromWirePoint Point *WirePoint

func main() {
	full := Value{Base{"a"}, 2, time.Second, &Point{1, 2}, []Point{{3, 4}}, map[string]Point{"n": {5, 6}}, 7, "kept"}
	for _, v := range []Value{full, {Secret: "kept"}} {
		if got := fromWire(v.wire()); !reflect.DeepEqual(got, v) {
			panic(got)
		}
	}
	if w := (Value{}).wire(); w.Max != nil || w.At != nil || w.Points != nil {
		panic("a zero value sets pointers")
	}
	if v := fromWire(nil); v.ID != "" || v.Secret != "" {
		panic("a nil message is no zero value")
	}
}
`

func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "main.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	return dir
}

// A value is unchanged after its conversion to another type and back. A zero value becomes a nil pointer in between.
func TestConversionsRoundTrip(t *testing.T) {
	dir := write(t, source)
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the program with the conversions ends with %v:\n%s", err, out)
	}
}

const events = `package main

import "reflect"

type Event interface{ event() }

type Begun struct{ ID string }

func (Begun) event() {}

type Said struct{ Words string }

func (Said) event() {}

type Message struct{ Event isMessage_Event }

func (m *Message) GetEvent() isMessage_Event { return m.Event }

type isMessage_Event interface{ isMessage_Event() }

type Message_Begun struct{ Begun *wire.Begun }

func (*Message_Begun) isMessage_Event() {}

type Message_Text struct{ Text *wire.Text }

func (*Message_Text) isMessage_Event() {}

//convert:oneof message fromMessage Event *Message
//convert:both text fromText Said *wire.Text Words=Text

func main() {
	for _, e := range []Event{Begun{"a"}, Said{"b"}} {
		if got := fromMessage(message(e)); !reflect.DeepEqual(got, e) {
			panic(got)
		}
	}
}
`

// A case of a oneof needs no line where a type beside the interface has the name of its message.
func TestNamesakes(t *testing.T) {
	dir := write(t, strings.Replace(events, `import "reflect"`, "import (\n\"reflect\"\n\n\"example.com/m/wire\"\n)", 1))
	if err := os.Mkdir(filepath.Join(dir, "wire"), 0o700); err != nil {
		t.Fatal(err)
	}
	const wire = "package wire\n\ntype Begun struct{ Id string }\n\ntype Text struct{ Text string }\n"
	if err := os.WriteFile(filepath.Join(dir, "wire", "wire.go"), []byte(wire), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the program with the conversions ends with %v:\n%s", err, out)
	}
}

// A field without a source, an option for a missing field, and an unknown type are errors that name them.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"forgotten field": {` <Secret="kept"`, ``, "field Secret of Value has no source in *Wire"},
		"unknown field":   {`Color=Paint`, `Color=Paint >Colour=1`, "*Wire has no field Colour to fill"},
		"part of nil": {
			`Color=Paint`, `Color=Paint Max=At.X`, "At.X of *Wire is a part of a pointer: fill At with an expression",
		},
		"unknown type": {`Value *Wire Color`, `Value *Wires Color`, "there is no type Wires"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(write(t, strings.Replace(source, c.from, c.to, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}
