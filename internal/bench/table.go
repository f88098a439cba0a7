package bench

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	if err := r.writeHead(w); err != nil {
		return err
	}
	for _, result := range r.Results {
		if err := result.write(w); err != nil {
			return err
		}
	}
	return nil
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

func (r Result) write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintf(table, "\n%s\tunit\t%s\t%s\tratio\n", r.Scenario, r.Baseline, r.Subject)
	for _, m := range r.Measures {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n",
			m.Name, m.Unit, m.format(m.Baseline), m.format(m.Subject), m.formatRatio())
	}
	return table.Flush() // reports the errors of the writes as well
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
