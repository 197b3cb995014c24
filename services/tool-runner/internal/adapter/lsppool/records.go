package lsppool

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/late"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// Watch passes the records of language servers that no answer has returned to store, until ctx ends or the pool is
// lost. A record that store does not report as stored is passed again by the next Watch, with the same id.
func (c *Client) Watch(ctx context.Context, store func(late.Record) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.WatchRecords(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	return late.Receive(func() (late.Record, error) {
		event, err := stream.Recv()
		return late.Record{
			ID: event.GetId(), Session: event.GetSessionId(), Project: event.GetProjectId(),
			Record: contract.RecordFromProto(event.GetRecord()),
		}, err
	}, store, func(id string) error { return stream.Send(&lsppoolv1.WatchRecordsRequest{Acknowledged: id}) })
}
