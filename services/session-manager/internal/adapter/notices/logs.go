package notices

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/structs"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/logs/core/logs"
)

// Announce returns the Announce function of a log collector. It sends one notice for consecutive entries of the
// same project.
func Announce(to Notifier) func(context.Context, []logs.Entry) error {
	return func(ctx context.Context, stored []logs.Entry) error {
		var list []*sessionmanagerv1.LogNotice
		project, size := "", 0
		for _, e := range stored {
			entry := LogEntry(e)
			n := proto.Size(entry)
			if size += n; len(list) == 0 || list[len(list)-1].GetOwnerUserId() != e.Owner || project != e.ProjectID ||
				size > maxNotice {
				list, project, size = append(list, &sessionmanagerv1.LogNotice{OwnerUserId: e.Owner}), e.ProjectID, n
			}
			last := list[len(list)-1]
			last.Entries = append(last.Entries, entry)
		}
		return send(ctx, to, list...)
	}
}

// maxNotice is the approximate bound of a notice, in bytes.
const maxNotice = 256 << 10

// Missed returns the Missed function of a log collector.
func Missed(to Notifier) func(context.Context) error {
	return func(ctx context.Context) error { return send(ctx, to, &sessionmanagerv1.LogNotice{}) }
}

func send(ctx context.Context, to Notifier, list ...*sessionmanagerv1.LogNotice) error {
	messages := make([][]byte, 0, len(list))
	for _, n := range list {
		data, err := proto.Marshal(n)
		if err != nil {
			return err
		}
		messages = append(messages, data)
	}
	return to.Notify(ctx, bus.LogSubject, messages...)
}

//convert:import logs "kaged.dev/services/session-manager/internal/logs/core/logs"
//convert:one LogEntry logs.Entry *apiv1.LogEntry >Level=logs.LevelName(in.Level) >Context=details(in.Context)

func details(context map[string]any) *structpb.Struct {
	if len(context) == 0 {
		return nil
	}
	return structs.Of(context)
}
