// Package page splits lists into pages by the position of the last item, not by an offset.
//
// A list is sorted by at most one number and one text. The position is therefore a [Key], and the query of a list
// selects the rows after it. Clients get the key as an opaque cursor that is valid for its own list only:
//
//	req, err := page.Parse("sessions", limit, cursor)
//	rows := ... order by created_at desc, id desc limit req.Fetch()   // after req.After, if that is set
//	p := page.Cut(req, rows, func(s Session) page.Key { return page.Key{N: s.CreatedAt, S: s.ID} })
package page

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"

	"kaged.dev/pkg/check"
)

// Limits of a page.
const (
	// Default is the number of items of a page if the request has no limit.
	Default = 50
	// Max is the maximum number of items of a page; a larger limit is reduced to it.
	Max = 200
)

// maxCursor is far above the length of the longest cursor that Cut makes.
const maxCursor = 1024

const version = 1

// Key is the position of an item in the order of its list: a number, then a text. A list sorted by only one of them
// leaves the other zero.
type Key struct {
	N int64
	S string
}

// Request asks for a page of the list named by List.
type Request struct {
	List string
	// Limit is the maximum number of items of the page, 1 to Max.
	Limit int
	// After is the end of the preceding page, nil for the first page.
	After *Key
}

// Page is a piece of a list.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the next page, "" on the last.
	Next string
}

// HasMore reports whether there is a next page.
func (p Page[T]) HasMore() bool { return p.Next != "" }

// NextCursor returns Next in the API's form: nil on the last page.
func (p Page[T]) NextCursor() *string {
	if p.Next == "" {
		return nil
	}
	return &p.Next
}

// Parse parses limit and cursor of a request for the list with the given name. A limit of 0 means [Default] and one
// above [Max] means Max. It fails with validation_failed that names limit or cursor for a negative limit and for a
// cursor from another list.
func Parse(list string, limit int32, cursor string) (Request, error) {
	req := Request{List: list, Limit: int(limit)}
	switch {
	case limit < 0:
		return Request{}, check.Field("limit", "limit must be between 1 and %d.", Max)
	case limit == 0:
		req.Limit = Default
	case limit > Max:
		req.Limit = Max
	}
	if cursor == "" {
		return req, nil
	}
	key, ok := decode(list, cursor)
	if !ok {
		return Request{}, check.Field("cursor", "cursor is not one that this list has given out.")
	}
	req.After = &key
	return req, nil
}

// Fetch is the number of rows to query: one more than the page has, to find out whether there is a next page.
func (r Request) Fetch() int32 { return int32(r.Limit) + 1 }

// Cut makes a page of up to Fetch rows; key returns the position of a row.
func Cut[T any](r Request, rows []T, key func(T) Key) Page[T] {
	return Of(r, rows[:min(len(rows), r.Limit)], len(rows) > r.Limit, key)
}

// Of makes a page of items. more means that further items follow, even if there are fewer here than the limit: lists of
// large items end a page by its size. key returns the position of an item.
func Of[T any](r Request, items []T, more bool, key func(T) Key) Page[T] {
	p := Page[T]{Items: items}
	if more && len(items) > 0 {
		p.Next = encode(r.List, key(items[len(items)-1]))
	}
	return p
}

// Map returns p with f applied to every item.
func Map[T, U any](p Page[T], f func(T) U) Page[U] {
	items := make([]U, len(p.Items))
	for i, item := range p.Items {
		items[i] = f(item)
	}
	return Page[U]{Items: items, Next: p.Next}
}

// token is a cursor before encoding.
type token struct {
	Version int    `json:"v"`
	List    string `json:"l"`
	N       int64  `json:"n,omitempty"`
	S       string `json:"s,omitempty"`
}

func encode(list string, key Key) string {
	// Marshalling a token cannot fail.
	text, _ := json.Marshal(token{version, list, key.N, key.S})
	return base64.RawURLEncoding.EncodeToString(text)
}

func decode(list, cursor string) (Key, bool) {
	if len(cursor) > maxCursor {
		return Key{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return Key{}, false
	}
	var t token
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if dec.Decode(&t) != nil || t.Version != version || t.List != list || check.Text("cursor", t.S, check.MaxID) != nil {
		return Key{}, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return Key{}, false
	}
	return Key{t.N, t.S}, true
}
