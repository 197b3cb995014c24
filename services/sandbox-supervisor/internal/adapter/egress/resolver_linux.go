package egress

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// queryIdle closes a DNS connection without a query.
const queryIdle = 10 * time.Second

// answerDatagrams answers DNS queries by UDP until conn is closed.
func (g *Gate) answerDatagrams(ctx context.Context, conn net.PacketConn) {
	buf := make([]byte, maxQuery+1)
	var pace pace
	for {
		pace.rest(ctx)
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue
		}
		if n > maxQuery {
			continue
		}
		if response := g.query(buf[:n]); response != nil {
			_, _ = conn.WriteTo(response, from) // a client repeats a lost query
		}
	}
}

// answerStream answers the DNS queries of a TCP connection.
func (g *Gate) answerStream(ctx context.Context, conn *net.TCPConn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, 2+maxQuery)
	var pace pace
	for {
		pace.rest(ctx)
		if conn.SetDeadline(time.Now().Add(queryIdle)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return
		}
		n := swap(buf)
		if n > maxQuery {
			return
		}
		if _, err := io.ReadFull(conn, buf[:n]); err != nil {
			return
		}
		response := g.query(buf[:n])
		if response == nil {
			return
		}
		out := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(response)), uint16(len(response)))
		if _, err := conn.Write(append(out, response...)); err != nil {
			return
		}
	}
}

// query answers one query and reports a refused name.
func (g *Gate) query(query []byte) []byte {
	response, denied := g.table.answer(query)
	if denied != "" {
		g.deny(denied, noRule(denied))
	}
	return response
}
