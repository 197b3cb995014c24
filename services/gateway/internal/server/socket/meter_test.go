package socket

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A client's bytes beyond the burst are read at the rate, completely and in order.
func TestClientBytesAreReadAtTheirRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		sent := make([]byte, 4000)
		for i := range sent {
			sent[i] = byte(i)
		}
		go func() {
			_, _ = client.Write(sent)
			client.Close()
		}()
		begun := time.Now()
		got, err := io.ReadAll(meteredConn{server, limiter(1000, 1000)})
		if took := time.Since(begun); err != nil || string(got) != string(sent) || took != 3*time.Second {
			t.Errorf("got %d bytes and error %v in %s, want all of %d in 3s", len(got), err, took, len(sent))
		}
	})
}
