package frame

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pair(t testing.TB) (*Conn, *Conn) {
	t.Helper()
	a, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd()))
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// A frame of any size and content arrives unchanged.
func TestFramesArriveWhole(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	rapid.Check(t, func(t *rapid.T) {
		f := Frame{
			Op: OpStart, Exec: rapid.Uint64().Draw(t, "exec"), Mark: rapid.Uint64().Draw(t, "mark"),
			Dir:  rapid.String().Draw(t, "dir"),
			Argv: rapid.SliceOfN(rapid.String(), 1, 20).Draw(t, "argv"),
			Env:  []string{"BIG=" + strings.Repeat("\x01é", rapid.IntRange(0, 100_000).Draw(t, "big"))},
		}
		sent := make(chan error, 1)
		go func() { sent <- a.Send(f) }()
		got, _, err := b.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, f) {
			t.Fatalf("a frame changed on its way")
		}
	})
}

// Every field of a frame arrives, and a frame with a byte less or more is refused.
func TestFieldsArrive(t *testing.T) {
	t.Parallel()
	var want Frame
	fill(reflect.ValueOf(&want).Elem())
	packed := want.append(nil)
	if got, err := parse(packed); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v, %v", want, got, err)
	}
	for n := range packed {
		if got, err := parse(packed[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are the frame %+v", n, len(packed), got)
		}
	}
	if _, err := parse(append(packed, 0)); err == nil {
		t.Error("a byte after the frame was taken")
	}
}

// fill sets every field to another value than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString("a\x00é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(-1 << 40)
	default:
		v.SetUint(1<<(v.Type().Bits()-1) + 1)
	}
}

// Descriptors arrive with their frame, open and with close-on-exec, also with a frame of many packets.
func TestDescriptorsTravel(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sent := make(chan error, 1)
	go func() { sent <- a.Send(Frame{Op: OpStart, Dir: strings.Repeat("x", 3*packet)}, int(w.Fd())) }()
	f, fds, err := b.Receive()
	if err != nil || len(fds) != 1 || len(f.Dir) != 3*packet {
		t.Fatalf("received %d bytes and %d files, %v", len(f.Dir), len(fds), err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	w.Close()
	if flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the descriptor would reach a command: flags %d, %v", flags, err)
	}
	copied := os.NewFile(uintptr(fds[0]), "copy")
	if _, err := copied.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	copied.Close()
	if got, _ := io.ReadAll(r); string(got) != "hello" {
		t.Errorf("read %q through the descriptor", got)
	}
}

// Frames of concurrent senders do not mix.
func TestSendersDoNotMix(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if err := a.Send(Frame{
					Op: OpStart, Exec: uint64(i), Dir: strings.Repeat(string(rune('a'+i)), 100_000),
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 8 * 20 {
		f, _, err := b.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Repeat(string(rune('a'+f.Exec)), 100_000); f.Dir != want {
			t.Fatalf("frame %d is mixed", f.Exec)
		}
	}
	wg.Wait()
}

// The end of one side gives io.EOF at the other, after everything that was sent before.
func TestEndComesLast(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	if err := a.Send(Frame{Op: OpReady, PID: 7}); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if f, _, err := b.Receive(); err != nil || f.PID != 7 {
		t.Fatalf("the frame before the end: %+v, %v", f, err)
	}
	if _, _, err := b.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if err := b.Send(Frame{Op: OpReady}); err == nil {
		t.Error("sending to a closed end did not fail")
	}
}

// A frame above the size limit is refused by its sender and by its receiver, and garbage gives an error and never a
// crash.
func FuzzReceive(f *testing.F) {
	f.Add(Frame{}.append([]byte{last}))
	f.Add(Frame{Op: OpStart, Argv: []string{"true"}, Terminal: &Size{80, 24}}.append([]byte{last}))
	f.Add(Frame{Op: OpStart, Dir: "/"}.append([]byte{more}))
	f.Add([]byte("\x00null"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > packet {
			return
		}
		a, b := pair(t)
		if len(data) > 0 {
			if err := a.sendPacket(data, nil); err != nil {
				t.Fatal(err)
			}
		}
		a.Close()
		for {
			if _, fds, err := b.Receive(); err != nil {
				if len(fds) != 0 {
					t.Error("descriptors beside an error")
				}
				return
			}
		}
	})
}

// A frame beyond the limits is not sent.
func TestLimits(t *testing.T) {
	t.Parallel()
	a, _ := pair(t)
	if err := a.Send(Frame{Dir: string(bytes.Repeat([]byte("x"), Max))}); err == nil {
		t.Error("a frame longer than allowed was sent")
	}
	if err := a.Send(Frame{}, make([]int, MaxFiles+1)...); err == nil {
		t.Error("too many files were sent")
	}
}
