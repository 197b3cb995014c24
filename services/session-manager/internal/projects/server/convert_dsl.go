package server

import (
	"context"
	"strings"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// docLink returns where the rule behind a kind of diagnostic is documented.
func docLink(kind string) string {
	switch {
	case strings.HasPrefix(kind, "cage"):
		return "docs/reference/cage.md"
	case strings.HasPrefix(kind, "budget"):
		return "docs/howto/set-a-budget.md"
	}
	return "docs/reference/project.schema.json"
}

// dslInvalid returns the refusal that an answer about a project file that does not compile holds, nil for one that
// does.
func dslInvalid(ctx context.Context, v projects.Verdict) *apiv1.ErrorObject {
	if v.Valid {
		return nil
	}
	f := v.Refusal()
	return &apiv1.ErrorObject{Code: commonv1.ErrorCode(f.Code), Message: f.Msg, RequestId: ident.CallerFrom(ctx).RequestID}
}
