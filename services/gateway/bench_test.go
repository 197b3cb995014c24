package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// memory returns the process's heap and stack memory in use, in bytes, after a garbage collection.
func memory() (heap, stacks uint64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse, m.StackInuse
}

// BenchmarkIdleSockets reports the memory of one idle socket: the gateway's part, its Attach stream, and the fake
// session-manager's part. The clients are bare connections.
func BenchmarkIdleSockets(b *testing.B) {
	const sockets = 500
	for b.Loop() {
		b.StopTimer()
		d, q := onSession(b, setup{})
		c := d.operator()
		header := fmt.Sprintf("Host: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: kaged.v1\r\nX-Kaged-CSRF: %s\r\nCookie: "+
			"kaged_session=%s; kaged_csrf=%s\r\n\r\n",
			strings.TrimPrefix(d.base, "http://"), c.cookie("kaged_csrf"), c.cookie("kaged_session"), c.cookie("kaged_csrf"))
		conns := make([]net.Conn, sockets)
		heap, stacks := memory()
		b.StartTimer()
		for i := range conns {
			id := fmt.Sprintf("01HZX00000000000000000%04d", i)
			q.begin(id)
			conn, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = conn
			fmt.Fprintf(conn, "GET /api/v1/sessions/%s/socket HTTP/1.1\r\n%s", id, header)
			resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
			if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
				b.Fatalf("socket %d: %v, %v", i, resp, err)
			}
			// hello, with a mask of zeros
			hello := `{"channel":"control","type":"hello","payload":{"resume_from_seq":{}}}`
			if _, err := conn.Write(append([]byte{0x81, 0x80 | byte(len(hello)), 0, 0, 0, 0}, hello...)); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		heapNow, stacksNow := memory()
		b.ReportMetric(float64(heapNow-heap)/1024/sockets, "heap-KiB/socket")
		b.ReportMetric(float64(stacksNow-stacks)/1024/sockets, "stack-KiB/socket")
		for _, conn := range conns {
			conn.Close()
		}
		for range conns {
			<-d.manager.released
		}
		b.StartTimer()
	}
}

// BenchmarkDelivery reports the time from the bus's Publish until the client has read the frame, including the time
// to store it.
func BenchmarkDelivery(b *testing.B) {
	d, q := onSession(b, setup{})
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["output"]}`)
	s.sync()
	var worst time.Duration
	for b.Loop() {
		start := time.Now()
		q.publish(session, "output", 1)
		s.want("output", "message.delta")
		worst = max(worst, time.Since(start))
	}
	b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
}

// BenchmarkRelay reports the time per frame of a burst, from the bus to a client that reads it.
func BenchmarkRelay(b *testing.B) {
	d, q := onSession(b, setup{})
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["output"]}`)
	s.sync()
	const burst = 200
	for b.Loop() {
		q.publishSized(session, "output", burst, 20)
		for range burst {
			if _, _, err := s.conn.NextReader(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/burst, "ns/frame")
}
