package lsp_test

import (
	"testing"

	"kaged.dev/services/lsp-pool/internal/lsp"
)

// The result of an expected call is kept raw, null included. jsonrpc2 gets every other message unchanged, and refuses
// those that break the protocol.
func TestResultsAreKeptRaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		message, result string
		calls           int
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{"a":[1,2.50]}}`, `{"a":[1,2.50]}`, 1},
		{`{"id":1,"result":null}`, `null`, 2},
		{`{"id":1,"result":0,"error":null}`, `0`, 1},
		{`{"id":1,"result":{}}`, "", 0},
		{`{"id":2,"result":{}}`, "", 1},
		{`{"id":"1","result":{}}`, "", 1},
		{`{"id":-1,"result":{}}`, "", 1},
		{`{"id":1.0,"result":{}}`, "", 1},
		{`{"id":1,"error":{"code":1,"message":"no"}}`, "", 1},
		{`{"id":1,"result":{},"error":{"code":1,"message":"no"}}`, "", 1},
		{`{"id":1,"method":"a","result":{}}`, "", 1},
		{`{"id":1,"method":"workspace/configuration","params":{}}`, "", 1},
		{`{"method":"a"}`, "", 1},
		{`{"id":1,"result":{}`, "", 1},
		{`[{"id":1,"result":{}}]`, "", 1},
		{`1`, "", 1},
		{``, "", 1},
	} {
		rest, result := lsp.Kept(c.message, c.calls)
		want := c.message
		if c.result != "" {
			want = `{"result":0,"id":1}`
		}
		if rest != want || result != c.result {
			t.Errorf("%s: got %q and %q, want %q and %q", c.message, rest, result, want, c.result)
		}
	}
}
