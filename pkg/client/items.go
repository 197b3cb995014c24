package client

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// page is an answer with a page of a list.
type page[Item any] interface {
	GetItems() []Item
	GetNextCursor() string
}

// listing is a request for a page.
type listing interface {
	proto.Message
	GetCursor() string
}

// Items yields the items of a list and fetches each page when it is needed. list is a method of a [Client] such as
// [Client.SearchSessions]. An error is the last value.
//
//	for session, err := range client.Items(ctx, c.SearchSessions, &apiv1.SearchSessionsRequest{}) { ... }
func Items[Item any, Request listing, Page page[Item]](
	ctx context.Context, list func(context.Context, Request) (Page, error), req Request,
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for cursor := req.GetCursor(); ; {
			ask := proto.Clone(req)
			m := ask.ProtoReflect()
			if fd := m.Descriptor().Fields().ByName("cursor"); cursor != "" && fd != nil {
				m.Set(fd, protoreflect.ValueOfString(cursor))
			}
			got, err := list(ctx, ask.(Request))
			if err != nil {
				var none Item
				yield(none, err)
				return
			}
			for _, item := range got.GetItems() {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = got.GetNextCursor(); cursor == "" {
				return
			}
		}
	}
}
