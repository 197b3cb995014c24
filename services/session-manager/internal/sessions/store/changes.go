package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
	"kaged.dev/services/session-manager/internal/stored"
)

// staleLease is the SQLSTATE of a failed assert_lease.
const staleLease = "KG001"

// Apply implements [live.Store]. The whole change is one round trip: a batch without transaction control is one
// transaction.
func (s *Sessions) Apply(ctx context.Context, f lease.Fence, c record.Change, again bool) error {
	leave, err := s.enter(ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	var p database.Pipeline
	err = db.New(&p).AssertLease(ctx, f.Session, f.Holder, f.Epoch)
	if err == nil {
		err = assertSlot(ctx, &p, c)
	}
	if err == nil {
		err = queue(ctx, &p, f.Session, c)
	}
	if err != nil {
		return database.Fail(err, "prepare a change")
	}
	err = p.Send(ctx, s.db)
	if len(c.Messages) > 0 || c.Fields().Label != nil {
		s.wrote()
	}
	// Postgres checks this index after the run's keys, so the conflict is with another run.
	if postgres.IsUnique(err, "runs_one_on_issue") {
		return record.IssueBusy(c.NewRun.Issue)
	}
	if full := noSlot(err); full != nil {
		return full
	}
	if again && postgres.IsUnique(err, "") {
		return nil // The ids are unique to this change, so an earlier try was committed.
	}
	return refused(f, lost(err))
}

// assertSlot adds the check that a slot is free for the run that a change begins.
func assertSlot(ctx context.Context, p *database.Pipeline, c record.Change) error {
	run := cmp.Or(c.NewRun, c.StartRun)
	if c.Slot == nil || run == nil {
		return nil
	}
	return db.New(p).AssertSlot(ctx, db.AssertSlotParams{
		Owner: run.Owner, ProjectID: run.ProjectID, RunID: run.ID, PerProject: int32(c.Slot.PerProject),
		PerOperator: int32(c.Slot.PerOperator),
	})
}

// noSlotState is the SQLSTATE of a failed assert_slot.
const noSlotState = "KG002"

// noSlot turns an error of assert_slot into a fault. It returns nil for any other error.
func noSlot(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != noSlotState {
		return nil
	}
	var full record.FullSlots
	if err := json.Unmarshal([]byte(pg.Detail), &full); err != nil {
		return fault.Wrap(err, fault.Internal, "The count of running sessions cannot be read.")
	}
	return record.NoSlot(full)
}

// largeChange is the size of a change, in bytes of text, from which on changes are stored one at a time. A change
// exists in ten copies (as statements, JSON, parameters and in the connection's buffer), so eight answers of 12 MB
// that end together would use a gigabyte.
const largeChange = 1 << 20

// enter waits until no other large change is being stored, if c is large.
func (s *Sessions) enter(ctx context.Context, c record.Change) (leave func(), err error) {
	if textOf(c) < largeChange {
		return func() {}, nil
	}
	select {
	case s.large <- struct{}{}:
		return func() { <-s.large }, nil
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	}
}

// textOf returns the bytes of text in the messages, invocations and steps of a change.
func textOf(c record.Change) (n int) {
	for _, m := range c.Messages {
		n += len(m.Content) + textOfBlocks(m.Blocks)
	}
	for _, i := range c.Invocations {
		n += len(i.Prompt)
	}
	for _, i := range c.Ended {
		n += len(i.Output)
	}
	for _, half := range c.Steps {
		if half.Turn != nil {
			n += textOfBlocks(half.Turn.Blocks)
		}
		for _, r := range half.Results {
			n += len(r.Content)
		}
	}
	return n
}

func textOfBlocks(blocks []llm.Block) (n int) {
	for _, b := range blocks {
		n += b.Size()
	}
	return n
}

// refused turns an error of assert_lease into a fault.
func refused(f lease.Fence, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == staleLease {
		return fault.Wrap(err, fault.StaleLease, "Another process took over session %s.", f.Session)
	}
	return database.Fail(err, "change session")
}

// lost marks an error after which the change may have been committed: the server's answer was lost or does not
// refer to the change.
func lost(err error) error {
	if err == nil || postgres.Refused(err) || pgconn.SafeToRetry(err) {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, "The database connection was lost while a change was stored; the change "+
		"may have been stored or not.").
		With("subsystem", "storage").With(fault.CommitUnknown, true)
}

// queue adds a change's statements to p.
func queue(ctx context.Context, p *database.Pipeline, session string, c record.Change) error {
	q := db.New(p)
	if patch := c.Fields(); !patch.Empty() {
		if err := q.PatchSession(ctx, patchParams(patch, session, c.At)); err != nil {
			return err
		}
	}
	for _, m := range c.Messages {
		params, err := messageParams(m)
		if err != nil {
			return err
		}
		if err := q.AppendMessage(ctx, params); err != nil {
			return err
		}
	}
	if err := queueSteers(ctx, q, session, c); err != nil {
		return err
	}
	if err := queueRun(ctx, q, session, c); err != nil {
		return err
	}
	if err := queueApprovals(ctx, q, c); err != nil {
		return err
	}
	if err := auditstore.Append(ctx, p, c.Audit); err != nil {
		return err
	}
	if len(c.Outbox) == 0 {
		return nil
	}
	out := db.InsertOutboxParams{SessionID: session, CreatedAt: c.At}
	for _, d := range c.Outbox {
		out.Ns = append(out.Ns, d.N)
		out.Channels = append(out.Channels, d.Channel.String())
		out.Kinds = append(out.Kinds, d.Type)
		out.MsgIds = append(out.MsgIds, d.ID)
		out.Payloads = append(out.Payloads, d.Payload)
	}
	return q.InsertOutbox(ctx, out)
}

// queueRun adds a change's statements about runs to q.
func queueRun(ctx context.Context, q *db.Queries, session string, c record.Change) error {
	if c.NewRun != nil && c.EndRun != nil { // A session has one run at a time: end the old one first.
		if err := q.EndRun(ctx, endParams(*c.EndRun, c.At)); err != nil {
			return err
		}
	}
	if c.NewRun != nil {
		params, err := runParams(*c.NewRun)
		if err != nil {
			return err
		}
		if err := q.InsertRun(ctx, params); err != nil {
			return err
		}
	}
	if r := c.StartRun; r != nil {
		params, err := runParams(*r)
		if err != nil {
			return err
		}
		if err := q.StartRun(ctx, r.StartedAt, params.CageStatus, params.PromptHashes, r.ID); err != nil {
			return err
		}
	}
	if len(c.Superseded) > 0 {
		if err := q.SupersedeMessages(ctx, c.Superseded); err != nil {
			return err
		}
	}
	if err := queueInvocations(ctx, q, c); err != nil {
		return err
	}
	if err := queueSpend(ctx, q, c); err != nil {
		return err
	}
	if err := queueCompactions(ctx, q, session, c); err != nil {
		return err
	}
	if err := queueLedger(ctx, q, session, c.Ledger); err != nil {
		return err
	}
	for _, half := range c.Steps {
		params, err := stepParams(half, c.At)
		if err != nil {
			return err
		}
		if err := q.InsertStep(ctx, params); err != nil {
			return err
		}
	}
	if err := queueHandover(ctx, q, c); err != nil {
		return err
	}
	if c.Cage != nil {
		if err := q.SetCageStatus(ctx, string(c.Cage.Status), c.Cage.RunID); err != nil {
			return err
		}
	}
	if c.CancelRequested != "" {
		if err := q.NoteCancel(ctx, c.At, c.CancelRequested); err != nil {
			return err
		}
	}
	if c.Worked != nil {
		if err := q.NoteWorked(ctx, c.Worked.Time.Milliseconds(), c.Worked.RunID); err != nil {
			return err
		}
	}
	if c.EndRun != nil && c.NewRun == nil {
		return q.EndRun(ctx, endParams(*c.EndRun, c.At))
	}
	return nil
}

// queueHandover adds a change's statements about the handover of a run to q.
func queueHandover(ctx context.Context, q *db.Queries, c record.Change) error {
	if c.Adopted != "" {
		if err := q.AdoptRun(ctx, c.Adopted); err != nil {
			return err
		}
	}
	if c.Released == nil {
		return nil
	}
	for _, half := range c.Released.Partial {
		p, err := stepParams(half, c.At)
		if err == nil {
			err = q.KeepPartial(ctx, db.KeepPartialParams{
				RunID: p.RunID, InvocationID: p.InvocationID, Step: p.Step, Body: p.Body, CreatedAt: p.CreatedAt,
			})
		}
		if err != nil {
			return err
		}
	}
	return q.ReleaseRun(ctx, c.At, c.Released.RunID)
}

// queueSteers adds a change's statements about waiting messages to q.
func queueSteers(ctx context.Context, q *db.Queries, session string, c record.Change) error {
	if w := c.Steer; w != nil {
		if err := q.InsertSteer(ctx, w.ID, session, check.Storable(w.Content), w.CreatedAt); err != nil {
			return err
		}
	}
	if len(c.Steered) > 0 {
		return q.DeleteSteers(ctx, c.Steered)
	}
	return nil
}

func budgetParam(b contract.Budget) *string { return text([]byte(budgetText(b))) }

func headHash(h *contract.AuditHead) *string {
	if h == nil {
		return nil
	}
	return &h.Hash
}

func headItems(h *contract.AuditHead) *int32 {
	if h == nil {
		return nil
	}
	items := int32(h.Items)
	return &items
}

//convert:use budgetParam
//convert:one patchParams(session string, at int64) record.Patch db.PatchSessionParams >ID=session >At=at
//convert:with Issue=IssueNumber
//convert:with IdleFiredAt=LastIdleFire >StartInjections=injectionsParam(in.Injections)
//convert:with >AuditHeadHash=headHash(in.AuditHead) >AuditHeadItems=headItems(in.AuditHead)
//convert:one endParams(at int64) record.RunEnd db.EndRunParams RunID=ID Totals.TokensIn=TokensIn
//convert:with Totals.TokensOut=TokensOut
//convert:with Totals.CostUSD=CostTotal >EndedAt=at >Error=keptError(in.Error)

//convert:import check "kaged.dev/pkg/check"
//convert:one textParams record.Message db.AppendMessageParams >Content=check.Storable(in.Content) Cost=CostTotal
//convert:with >Blocks=- >Metadata=-
//convert:import cmp "cmp"
//convert:import contract "kaged.dev/pkg/contract"
//convert:one runRow(prompts json.RawMessage) record.Run db.InsertRunParams Issue=IssueNumber >PromptHashes=prompts
//convert:with >CageStatus=string(cmp.Or(in.Cage,contract.Uncaged))
//convert:import json "encoding/json"

func messageParams(m record.Message) (db.AppendMessageParams, error) {
	p := textParams(m)
	if m.Blocks != nil {
		blocks, err := transcript.EncodeBlocks(m.Blocks)
		if err != nil {
			return p, err
		}
		p.Blocks = text(blocks)
	}
	if m.Metadata != nil {
		kept := *m.Metadata
		kept.Provider, kept.Model = check.Storable(kept.Provider), check.Storable(kept.Model)
		kept.ErrorMessage = check.Storable(kept.ErrorMessage)
		metadata, err := json.Marshal(kept)
		if err != nil {
			return p, err
		}
		p.Metadata = text(metadata)
	}
	return p, nil
}

func text(b []byte) *string {
	s := string(b)
	return &s
}

func runParams(r record.Run) (db.InsertRunParams, error) {
	hashes := r.PromptHashes
	if hashes == nil {
		hashes = map[string]string{}
	}
	encoded, err := database.JSON(hashes)
	return runRow(r, encoded), err
}

// maxErrorDetail bounds the stored part of a failure, in bytes of JSON.
const maxErrorDetail = 64 << 10

// keptError returns a failure in its stored form, nil for nil.
func keptError(e *fault.Error) *string {
	if e == nil {
		return nil
	}
	return text(audit.Encode(map[string]any{
		"code": e.Code.String(), "message": e.Msg, "details": e.Details, "http": e.HTTP,
	}, maxErrorDetail))
}

// The parts of a stored step.
const (
	partTurn    = 1
	partResults = 2
	partPartial = 3
)

//convert:one halfParams(at int64) record.StepHalf db.InsertStepParams >Part=partResults >CreatedAt=at >Body=-

func stepParams(half record.StepHalf, at int64) (db.InsertStepParams, error) {
	p := halfParams(half, at)
	var err error
	if half.Turn == nil {
		p.Body, err = stored.Results(half.Results)
		return p, err
	}
	p.Part = partTurn
	p.Body, err = stored.Turn(half.Turn.Turn)
	return p, err
}
