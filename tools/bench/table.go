package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	if err := r.writeHead(w); err != nil {
		return err
	}
	for results := r.Results; len(results) > 0; {
		n := sameBaseline(results)
		if err := writeResults(w, results[:n]); err != nil {
			return err
		}
		results = results[n:]
	}
	return nil
}

// sameBaseline returns how many results, from the first on, belong in one table: they
// compare the same with the same.
func sameBaseline(results []Result) int {
	n := slices.IndexFunc(results, func(r Result) bool {
		return r.Scenario != results[0].Scenario || r.Baseline != results[0].Baseline
	})
	if n < 0 {
		return len(results)
	}
	return n
}

func (r *Report) writeHead(w io.Writer) error {
	m := r.Machine
	_, err := fmt.Fprintf(w, "posthaste %s, %s/%s, %d processors, %s\n"+
		"writing and syncing 4 KiB: p50 %s ms, p99 %s ms\n"+
		"%d clients, %d B bodies, %d rounds of %s for each side\n",
		r.Version, m.OS, m.Arch, m.Processors, m.Go,
		decimal(m.SyncP50), decimal(m.SyncP99),
		r.Load.Clients, r.Load.BodyBytes, r.Load.Rounds, r.Load.round())
	return err
}

func (l Load) round() string {
	if l.RoundMessages > 0 {
		return fmt.Sprintf("%d messages", l.RoundMessages)
	}
	return fmt.Sprintf("%gs", l.RoundSeconds)
}

// writeResults writes results with the same baseline in one table.
func writeResults(w io.Writer, results []Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	first := results[0]
	_, _ = fmt.Fprintf(table, "\n%s\tunit\t%s", first.Scenario, first.Baseline)
	for _, r := range results {
		_, _ = fmt.Fprintf(table, "\t%s\tratio", r.Subject)
	}
	_, _ = fmt.Fprintln(table)
	for _, m := range first.Measures {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s", m.Name, m.Unit, m.format(m.Baseline))
		for _, r := range results {
			subject := r.measure(m.Name)
			_, _ = fmt.Fprintf(table, "\t%s\t%s", subject.format(subject.Subject), subject.formatRatio())
		}
		_, _ = fmt.Fprintln(table)
	}
	return table.Flush() // reports the errors of the writes as well
}

// measure returns the measure with a name, one without values if there is none.
func (r Result) measure(name string) Measure {
	at := slices.IndexFunc(r.Measures, func(m Measure) bool { return m.Name == name })
	if at < 0 {
		return Measure{Name: name}
	}
	return r.Measures[at]
}

func (m Measure) format(value *float64) string {
	switch {
	case value == nil:
		return "n/a"
	case m.Unit == unitMessages:
		return strconv.FormatFloat(*value, 'f', 0, 64)
	default:
		return decimal(*value)
	}
}

func (m Measure) formatRatio() string {
	if m.Ratio == nil {
		return ""
	}
	return decimal(*m.Ratio)
}

// decimal writes three significant digits, and all digits before the point. The
// values of a report are not negative.
func decimal(v float64) string {
	decimals := 3
	switch {
	case v >= 100:
		decimals = 0
	case v >= 10:
		decimals = 1
	case v >= 1:
		decimals = 2
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
