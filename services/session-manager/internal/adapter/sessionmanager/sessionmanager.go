// Package sessionmanager calls other session-managers to change the sessions that they hold.
package sessionmanager

import (
	"context"

	"google.golang.org/grpc"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// Peers implements [sessions.Peers].
type Peers struct {
	dial func(address string) (grpc.ClientConnInterface, error)
}

// New returns Peers that connect through dial, which keeps its connections.
func New(dial func(address string) (grpc.ClientConnInterface, error)) *Peers { return &Peers{dial} }

// EndSession implements [sessions.Peers].
func (p *Peers) EndSession(ctx context.Context, address, session string) error {
	conn, err := p.dial(address)
	if err != nil {
		return err
	}
	_, err = sessionmanagerv1.NewSessionServiceClient(conn).
		EndSession(ctx, &apiv1.EndSessionRequest{Id: session, Confirm: true})
	return err
}
