package frame

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
)

// append appends the frame's packed form to data: its fields in order, numbers as varints, strings and lists with their
// length before them.
func (f Frame) append(data []byte) []byte {
	data = appendString(data, string(f.Op))
	data = binary.AppendUvarint(data, f.Exec)
	data = appendStrings(data, f.Argv)
	data = appendStrings(data, f.Env)
	data = appendString(data, f.Dir)
	data = appendBool(data, f.Terminal != nil)
	if f.Terminal != nil {
		data = binary.AppendUvarint(data, uint64(f.Terminal.Cols))
		data = binary.AppendUvarint(data, uint64(f.Terminal.Rows))
	}
	data = binary.AppendVarint(data, int64(f.Place))
	data = binary.AppendUvarint(data, f.Mark)
	data = appendBool(data, f.Cgroup)
	data = binary.AppendVarint(data, int64(f.Port))
	data = binary.AppendVarint(data, int64(f.Signal))
	data = binary.AppendVarint(data, int64(f.PID))
	data = appendString(data, string(f.Plan))
	data = appendString(data, f.Layer)
	data = appendString(data, string(f.Cause))
	data = appendString(data, f.Text)
	data = binary.AppendVarint(data, int64(f.Code))
	return binary.AppendVarint(data, int64(f.Left))
}

func appendString(data []byte, s string) []byte {
	return append(binary.AppendUvarint(data, uint64(len(s))), s...)
}

func appendStrings(data []byte, list []string) []byte {
	data = binary.AppendUvarint(data, uint64(len(list)))
	for _, s := range list {
		data = appendString(data, s)
	}
	return data
}

func appendBool(data []byte, b bool) []byte {
	if b {
		return append(data, 1)
	}
	return append(data, 0)
}

// parse returns the frame of a packed form.
func parse(data []byte) (Frame, error) {
	u := unpacker{rest: data, text: string(data)}
	f := Frame{Op: Op(u.string()), Exec: u.uint(), Argv: u.strings(), Env: u.strings(), Dir: u.string()}
	if u.uint() != 0 {
		f.Terminal = &Size{Cols: u.short(), Rows: u.short()}
	}
	f.Place, f.Mark, f.Cgroup, f.Port, f.Signal = u.int(), u.uint(), u.uint() != 0, u.int(), u.int()
	f.PID, f.Plan, f.Layer = u.int(), json.RawMessage(u.string()), u.string()
	f.Cause, f.Text, f.Code, f.Left = Cause(u.string()), u.string(), u.int(), u.int()
	if len(f.Plan) == 0 {
		f.Plan = nil
	}
	if u.failed || len(u.rest) > 0 {
		return Frame{}, errors.New("a frame does not parse")
	}
	return f, nil
}

// unpacker reads a packed form. After a failure every value is zero.
type unpacker struct {
	rest   []byte
	text   string // of which rest is the end, so that all strings of a frame are one allocation
	failed bool
}

// took removes n bytes of rest, or fails for another n.
func (u *unpacker) took(n int) bool {
	if n <= 0 || n > len(u.rest) {
		u.fail()
		return false
	}
	u.rest = u.rest[n:]
	return true
}

func (u *unpacker) fail() { u.rest, u.failed = nil, true }

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.rest)
	if !u.took(n) {
		return 0
	}
	return v
}

func (u *unpacker) int() int {
	v, n := binary.Varint(u.rest)
	if !u.took(n) {
		return 0
	}
	return int(v)
}

func (u *unpacker) short() uint16 {
	v := u.uint()
	if v > math.MaxUint16 {
		u.fail()
		return 0
	}
	return uint16(v)
}

func (u *unpacker) string() string {
	n := u.uint()
	if n > uint64(len(u.rest)) {
		u.fail()
		return ""
	}
	at := len(u.text) - len(u.rest)
	u.rest = u.rest[n:]
	return u.text[at : at+int(n)]
}

func (u *unpacker) strings() []string {
	n := u.uint()
	if n > uint64(len(u.rest)) { // each string has at least one byte
		u.fail()
	}
	var list []string
	for ; n > 0 && !u.failed; n-- { // the count alone allocates nothing, because a peer may say any
		list = append(list, u.string())
	}
	return list
}
