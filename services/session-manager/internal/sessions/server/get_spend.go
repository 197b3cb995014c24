package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetSpend returns the use of the caller's model calls.
func (s *Server) GetSpend(ctx context.Context, req *apiv1.GetSpendRequest) (*apiv1.GetSpendResponse, error) {
	found, err := s.sessions.Spending(ctx, req.Since)
	if err != nil {
		return nil, err
	}
	res := &apiv1.GetSpendResponse{
		Since: found.Since, Until: found.Until, Total: spendSum(found.Total), HasMore: found.More,
	}
	for _, g := range found.By {
		res.Groups = append(res.Groups, &apiv1.SpendGroup{ProjectId: g.ProjectID, Model: g.Model, Sum: spendSum(g.Spent)})
	}
	return res, nil
}
