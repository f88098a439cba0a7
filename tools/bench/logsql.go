package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// sqlLog is a log in PostgreSQL as one would make it oneself: a table of messages, a
// table of entries, and an index for each column that can be asked for. It is in a
// schema of its own, which goes with it.
type sqlLog struct {
	db      *pgx.Conn
	schema  string
	history *history
	size    []reading

	pages [][]reading
}

// sqlColumns are the columns of entries that have a filter, by its parameter.
var sqlColumns = []struct{ parameter, column string }{
	{"state", "state"},
	{"url", "url"},
	{"host", "host"},
	{"path", "path"},
	{"label", "label"},
	{"queueName", "queue"},
	{"topicName", "url_group"},
	{"scheduleId", "schedule_id"},
	{"callerIp", "caller_ip"},
	{"flowControlKey", "flow_key"},
}

const sqlTables = `
CREATE TABLE messages (id bytea PRIMARY KEY, method text, header text, body bytea);
CREATE TABLE entries (
	position bigint PRIMARY KEY, message_id bytea NOT NULL, error text, next_delivery_at timestamptz,
	response_status int, response_body bytea,
	state text NOT NULL, url text NOT NULL, host text NOT NULL, path text NOT NULL, label text, queue text,
	url_group text, schedule_id text, caller_ip text, flow_key text
);`

// openSQLLog copies the log of a store that no program uses into a schema of its own.
func openSQLLog(ctx context.Context, l *lab, from *logStore) (*sqlLog, error) {
	db, err := pgx.Connect(ctx, l.options.DatabaseURL)
	if err != nil {
		return nil, err
	}
	s := &sqlLog{db: db, schema: "posthaste_bench_" + strings.ToLower(rand.Text()), history: from.history}
	began := time.Now()
	if err := s.make(ctx, from); err != nil {
		s.close()
		return nil, err
	}
	l.note("  postgresql: stored the longest log in %s", time.Since(began).Round(time.Second))
	return s, nil
}

func (s *sqlLog) make(ctx context.Context, from *logStore) error {
	name := pgx.Identifier{s.schema}.Sanitize()
	if _, err := s.db.Exec(ctx, "CREATE SCHEMA "+name+"; SET search_path = "+name+";"+sqlTables); err != nil {
		return err
	}
	entries, err := s.copyFrom(ctx, from.data())
	if err != nil {
		return err
	}
	indexed := []string{"message_id"}
	for _, c := range sqlColumns {
		indexed = append(indexed, c.column)
	}
	for _, column := range indexed {
		if _, err := s.db.Exec(ctx, fmt.Sprintf("CREATE INDEX ON entries (%s, position)", column)); err != nil {
			return err
		}
	}
	if _, err := s.db.Exec(ctx, "VACUUM ANALYZE messages, entries"); err != nil {
		return err
	}
	var bytes int64
	err = s.db.QueryRow(ctx, "SELECT pg_total_relation_size('messages') + pg_total_relation_size('entries')").Scan(&bytes)
	s.size = []reading{
		measured("disk, compacted", "B/message", float64(bytes)/float64(from.history.total)),
		measured("disk, compacted, of an entry", "B/entry", float64(bytes)/float64(max(entries, 1))),
	}
	return err
}

// close drops the schema.
func (s *sqlLog) close() {
	const patience = time.Minute // also when the run was broken off
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _ = s.db.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{s.schema}.Sanitize()+" CASCADE") // the connection says why not
	_ = s.db.Close(ctx)
}

// copyFrom copies the log of a store and returns how many entries it has.
func (s *sqlLog) copyFrom(ctx context.Context, data string) (entries int, err error) {
	from, err := ledger.Over(lsm.Open(data, lsm.Options{Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	query := store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 5000}
	for more := true; more; {
		page, err := store.ReadEvents(ctx, from, benchingUser, query)
		if err != nil {
			return 0, err
		}
		if err := s.copyPage(ctx, page.Entries); err != nil {
			return 0, err
		}
		entries += len(page.Entries)
		query.Low, more = page.Next, page.More
	}
	return entries, nil
}

func (s *sqlLog) copyPage(ctx context.Context, page []store.Entry) error {
	var messages, entries [][]any
	for i := range page {
		if page[i].State == posthaste.StateCreated {
			messages = append(messages, messageRow(page[i].Message))
		}
		entries = append(entries, entryRow(&page[i]))
	}
	_, err := s.db.CopyFrom(ctx, pgx.Identifier{"messages"}, []string{"id", "method", "header", "body"}, pgx.CopyFromRows(messages))
	if err != nil {
		return err
	}
	columns := []string{"position", "message_id", "error", "next_delivery_at", "response_status", "response_body"}
	for _, c := range sqlColumns {
		columns = append(columns, c.column)
	}
	_, err = s.db.CopyFrom(ctx, pgx.Identifier{"entries"}, columns, pgx.CopyFromRows(entries))
	return err
}

func messageRow(m *posthaste.Message) []any {
	var header strings.Builder
	_ = m.Header.Write(&header) // a strings.Builder takes everything
	return []any{m.ID[:], m.Method, header.String(), m.Body}
}

// entryRow returns a row of entries: its own columns, then sqlColumns.
func entryRow(e *store.Entry) []any {
	m := e.Message
	var next *time.Time
	if !e.NextDeliveryAt.IsZero() {
		next = &e.NextDeliveryAt
	}
	var status *int
	var body []byte
	if e.Response != nil {
		status, body = &e.Response.Status, e.Response.Body
	}
	host, path := posthaste.HostAndPath(m.URL)
	return []any{
		int64(e.Position), e.MessageID[:], textOrNull(e.Error), next, status, body,
		string(e.State), m.URL, host, path, textOrNull(strings.Join(m.Labels, ",")), textOrNull(m.Queue),
		textOrNull(m.URLGroup), textOrNull(m.ScheduleID), textOrNull(m.CallerIP), textOrNull(m.FlowControl.Key),
	}
}

func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// askAll asks for each page of messages and notes how long its rows take.
func (s *sqlLog) askAll(ctx context.Context, pages []logPage) error {
	for _, page := range pages {
		if page.path != messageLog {
			continue
		}
		query, values, err := s.query(page)
		if err != nil {
			return err
		}
		took, _, err := briefly.take(func() (time.Duration, error) {
			began := time.Now()
			n, err := s.read(ctx, query, values)
			if err == nil && n != page.count {
				err = fmt.Errorf("the page has %d entries, %d were expected", n, page.count)
			}
			return time.Since(began), err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", page.name, err)
		}
		s.pages = append(s.pages, []reading{measured(page.name, "ms", milliseconds(took[0]))})
	}
	return nil
}

// query returns the query for a page, and its values.
func (s *sqlLog) query(page logPage) (query string, values []any, err error) {
	params, err := page.query(s.history)
	if err != nil {
		return "", nil, err
	}
	var where []string
	narrow := func(condition string, value any) {
		values = append(values, value)
		where = append(where, fmt.Sprintf(condition, len(values)))
	}
	for _, c := range sqlColumns {
		switch wanted := params[c.parameter]; len(wanted) {
		case 0:
		case 1:
			narrow(c.column+" = $%d", wanted[0])
		default:
			narrow(c.column+" = ANY($%d)", wanted)
		}
	}
	if params.Has("messageId") {
		narrow("message_id = $%d", s.history.known[:])
	}
	order := "DESC"
	if params.Get("order") != "" {
		order = "ASC"
	}
	if page.middle {
		narrow("position <= $%d", int64(posthaste.LastPosition(s.history.middle())))
	}
	if len(where) == 0 {
		where = []string{"true"}
	}
	return fmt.Sprintf("SELECT e.*, m.method, m.header, m.body FROM entries e JOIN messages m ON m.id = e.message_id WHERE %s ORDER BY position %s LIMIT %s",
		strings.Join(where, " AND "), order, params.Get("count")), values, nil
}

// read reads all rows of a query and returns how many there are.
func (s *sqlLog) read(ctx context.Context, query string, values []any) (n int, err error) {
	rows, err := s.db.Query(ctx, query, values...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		rows.RawValues()
	}
	return n, rows.Err()
}
