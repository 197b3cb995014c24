package page_test

import (
	"encoding/base64"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/page"
)

// A list of five in pages of two gives two, two and one items, and only the last page has no next one. A-WIRE-PAGE-01.
func TestWalk(t *testing.T) {
	list := []int64{50, 40, 30, 20, 10}
	after := func(r page.Request) []int64 {
		var rows []int64
		for _, n := range list {
			if (r.After == nil || n < r.After.N) && len(rows) < int(r.Fetch()) {
				rows = append(rows, n)
			}
		}
		return rows
	}
	var got [][]int64
	cursor := ""
	for {
		r, err := page.Parse("numbers", 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		p := page.Cut(r, after(r), func(n int64) page.Key { return page.Key{N: n} })
		got = append(got, p.Items)
		if cursor = p.Next; !p.HasMore() {
			break
		}
	}
	if d := cmp.Diff([][]int64{{50, 40}, {30, 20}, {10}}, got); d != "" {
		t.Error(d)
	}
}

// A page that exactly ends the list has no next one.
func TestExactEnd(t *testing.T) {
	r, _ := page.Parse("numbers", 2, "")
	p := page.Cut(r, []int64{2, 1}, func(n int64) page.Key { return page.Key{N: n} })
	if p.HasMore() || p.NextCursor() != nil || len(p.Items) != 2 {
		t.Errorf("page = %+v", p)
	}
	mapped := page.Map(page.Page[int64]{Items: []int64{1, 2}, Next: "x"}, func(n int64) int64 { return -n })
	if d := cmp.Diff([]int64{-1, -2}, mapped.Items); d != "" || *mapped.NextCursor() != "x" {
		t.Error(d, mapped.Next)
	}
}

// The limit defaults to 50, is cut to 200, and cannot be negative. A-WIRE-PAGE-02, A-WIRE-PAGE-03.
func TestLimit(t *testing.T) {
	for limit, want := range map[int32]int{0: 50, 1: 1, 200: 200, 201: 200, math.MaxInt32: 200} {
		if r, err := page.Parse("x", limit, ""); err != nil || r.Limit != want || r.Fetch() != int32(want)+1 {
			t.Errorf("limit %d: %+v %v", limit, r, err)
		}
	}
	for _, limit := range []int32{-1, math.MinInt32} {
		_, err := page.Parse("x", limit, "")
		if !errors.Is(err, fault.ValidationFailed) || !cmp.Equal(fault.From(err).Details["fields"], any([]string{"limit"})) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// A key is equal after encoding and parsing its cursor, and another list refuses the cursor.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := page.Key{N: rapid.Int64().Draw(t, "n"), S: rapid.StringMatching(`[0-9A-Za-z_-]{0,60}`).Draw(t, "s")}
		r := page.Request{List: "a", Limit: 1}
		p := page.Cut(r, []page.Key{key, {}}, func(k page.Key) page.Key { return k })
		back, err := page.Parse("a", 1, p.Next)
		if err != nil || *back.After != key {
			t.Fatalf("%+v came back as %+v, %v", key, back.After, err)
		}
		if _, err := page.Parse("b", 1, p.Next); !errors.Is(err, fault.ValidationFailed) {
			t.Fatalf("another list's cursor: %v", err)
		}
	})
}

// A client's cursor is either valid or refused by name. A-WIRE-PAGE-04.
func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add("garbage!")
	f.Add("01HXAB")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"v":1,"l":"x","n":1}`)))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"v":1,"l":"x","n":1}{}`)))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"v":1,"l":"x","s":"\u0000"}`)))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"v":2,"l":"x"}`)))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"v":1,"l":"x","n":1e99}`)))
	f.Fuzz(func(t *testing.T, cursor string) {
		r, err := page.Parse("x", 10, cursor)
		if err != nil {
			if !errors.Is(err, fault.ValidationFailed) ||
				!cmp.Equal(fault.From(err).Details["fields"], any([]string{"cursor"})) {
				t.Fatalf("%q: %v", cursor, err)
			}
			return
		}
		if (r.After == nil) != (cursor == "") {
			t.Fatalf("%q gave %+v", cursor, r)
		}
	})
}
