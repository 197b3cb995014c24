package issue

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// todoActions are the actions on one todo and the changes that they make.
var todoActions = map[string]map[string]any{
	"start":  {"status": "in_progress"},
	"done":   {"status": "completed"},
	"drop":   {"status": "abandoned"},
	"reopen": {"status": "pending"},
	"verify": {"verified": true},
	"note":   {},
}

func todo(a kit.App, p *kit.Places) *cobra.Command {
	var at place
	var criterion bool
	var phase, remark string
	cmd := &cobra.Command{
		Use: "todo NUMBER [ACTION TEXT]", Short: "Show or change the todos of an issue", Args: kit.Takes(1, -1),
		Long: "Shows the todos of an issue, or changes one and shows them: ACTION is add, start, done, drop,\n" +
			"reopen, verify or note, TEXT is the todo, or a part of it that no other todo contains. Only\n" +
			"operators can drop and verify criteria; an agent's \"done\" is a claim.",
		Example: "  kaged issue todo 7\n  kaged issue todo 7 add --criterion All tests pass\n" +
			"  kaged issue todo 7 verify all tests\n  kaged issue todo 7 note all tests --text \"see run 12\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := numbered(cmd, args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
					return printTodos(ctx, c, path+number, a.Stdout)
				})
			}
			action, text := args[1], strings.Join(args[2:], " ")
			change, known := todoActions[action]
			switch {
			case !known && action != "add":
				return kit.Misused(cmd, "%q must be add, start, done, drop, reopen, verify or note", action)
			case strings.TrimSpace(text) == "":
				return kit.Misused(cmd, "`%s %s %s` takes the text of a todo", cmd.CommandPath(), args[0], action)
			case action == "note" && remark == "":
				return kit.Misused(cmd, "note takes --text")
			case action != "add" && (criterion || phase != ""):
				return kit.Misused(cmd, "--criterion and --phase go with add")
			}
			return at.in(a, p, cmd, func(ctx context.Context, c *client.Client, path string) error {
				here := path + number
				if action == "add" {
					in := map[string]any{"items": []string{text}, "kind": "step", "phase": phase}
					if criterion {
						in["kind"] = "criterion"
					}
					err = c.Do(ctx, http.MethodPost, here+"/todos", in, nil)
				} else {
					err = changeTodo(ctx, c, here, text, change, remark)
				}
				if err != nil {
					return err
				}
				return printTodos(ctx, c, here, a.Stdout)
			})
		},
	}
	cmd.Flags().BoolVar(&criterion, "criterion", false, "add a criterion, a statement that must hold, instead of a step")
	cmd.Flags().StringVar(&phase, "phase", "", "the phase of an added todo")
	cmd.Flags().StringVar(&remark, "text", "", "a note on the todo, with any action but add")
	at.flags(cmd)
	return cmd
}

func printTodos(ctx context.Context, c *client.Client, path string, out io.Writer) error {
	var todos struct{ Items []todoView }
	if err := c.Do(ctx, http.MethodGet, path+"/todos", nil, &todos); err != nil {
		return err
	}
	var b strings.Builder
	if writeTodos(&b, todos.Items); b.Len() == 0 {
		b.WriteString("The issue has no todos. Add one with `kaged issue todo NUMBER add TEXT`.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// changeTodo changes the todo that matches text.
func changeTodo(ctx context.Context, c *client.Client, path, text string, change map[string]any, remark string) error {
	var todos struct{ Items []todoView }
	if err := c.Do(ctx, http.MethodGet, path+"/todos", nil, &todos); err != nil {
		return err
	}
	t, err := named(todos.Items, text)
	if err != nil {
		return err
	}
	in := map[string]any{}
	for name, value := range change {
		in[name] = value
	}
	if remark != "" {
		in["note"] = remark
	}
	return c.Do(ctx, http.MethodPatch, path+"/todos/"+t.ID, in, nil)
}

// named returns the todo with a text, apart from case, or else the only todo that contains the text; open todos come
// first. It fails with not_found and names the candidates.
func named(todos []todoView, text string) (todoView, error) {
	wanted := strings.ToLower(strings.TrimSpace(text))
	find := func(matches func(string) bool) []todoView {
		all := slices.DeleteFunc(slices.Clone(todos), func(t todoView) bool {
			return !matches(strings.ToLower(strings.TrimSpace(t.Content)))
		})
		open := slices.DeleteFunc(slices.Clone(all), func(t todoView) bool {
			return t.Status != "pending" && t.Status != "in_progress"
		})
		if len(open) > 0 {
			return open
		}
		return all
	}
	if exact := find(func(s string) bool { return s == wanted }); len(exact) > 0 {
		return exact[0], nil
	}
	part := find(func(s string) bool { return strings.Contains(s, wanted) })
	switch len(part) {
	case 1:
		return part[0], nil
	case 0:
		return todoView{}, fault.New(fault.NotFound, "The issue has no todo %q.", text)
	}
	var names []string
	for _, t := range part {
		names = append(names, fmt.Sprintf("%q", t.Content))
	}
	return todoView{}, fault.New(fault.NotFound, "%q is a part of %d todos; give the full text of one: %s.", text,
		len(part), strings.Join(names, ", "))
}
