package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// ListIssueTodos lists an issue's todos.
func (s *Server) ListIssueTodos(
	ctx context.Context, req *apiv1.ListIssueTodosRequest,
) (*apiv1.ListIssueTodosResponse, error) {
	list, err := s.issues.Todos(ctx, ref(ctx, req))
	if err != nil {
		return nil, err
	}
	return &apiv1.ListIssueTodosResponse{Items: mapped(list, todo)}, nil
}

// AddIssueTodos appends todos.
func (s *Server) AddIssueTodos(
	ctx context.Context, req *apiv1.AddIssueTodosRequest,
) (*apiv1.AddIssueTodosResponse, error) {
	list, err := s.issues.AddTodos(ctx, ref(ctx, req), issues.NewTodos{
		Items: req.GetItems(), Kind: todoKindNames.of(req.GetKind()), Phase: req.GetPhase(),
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.AddIssueTodosResponse{Items: mapped(list, todo)}, nil
}

// UpdateIssueTodo changes one todo.
func (s *Server) UpdateIssueTodo(ctx context.Context,
	req *apiv1.UpdateIssueTodoRequest,
) (*apiv1.UpdateIssueTodoResponse, error) {
	t, err := s.issues.UpdateTodo(ctx, ref(ctx, req), req.GetId(), issues.TodoChange{
		Content: req.Content, Status: todoStatusNames.of(req.GetStatus()), Verified: req.Verified, Note: req.GetNote(),
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.UpdateIssueTodoResponse{Todo: todo(t)}, nil
}
