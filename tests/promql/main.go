// Rules and expressions of Prometheus, evaluated by Prometheus' own engine, for tests.
//
// One question on stdin, as JSON; one answer on stdout, as JSON.
//
//	parse  {"expressions": ["..."]}
//	rules  {"file": "...", "series": [{"series": "up{}", "values": "0 1"}], "interval": "1m", "at": ["10m"]}
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: %s parse|rules", os.Args[0]))
	}
	question, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	var answer any
	switch os.Args[1] {
	case "parse":
		answer, err = parse(question)
	case "rules":
		answer, err = rulesAt(question)
	default:
		err = fmt.Errorf("unknown question %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

type parsed struct {
	Error     string     `json:"error"`
	Selectors []selector `json:"selectors"`
	// Labels that the expression groups by or matches on.
	Labels []string `json:"labels"`
}

type selector struct {
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
}

type matcher struct {
	Label string `json:"label"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

// parse says for each expression which metrics and labels it names, or why it is none.
func parse(question []byte) ([]parsed, error) {
	var asked struct{ Expressions []string }
	if err := json.Unmarshal(question, &asked); err != nil {
		return nil, err
	}
	p := parser.NewParser(parser.Options{})
	answers := make([]parsed, 0, len(asked.Expressions))
	for _, text := range asked.Expressions {
		answer := parsed{Selectors: []selector{}, Labels: []string{}}
		expr, err := p.ParseExpr(text)
		if err != nil {
			answer.Error = err.Error()
			answers = append(answers, answer)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			switch each := node.(type) {
			case *parser.VectorSelector:
				found := selector{Metric: each.Name, Matchers: []matcher{}}
				for _, m := range each.LabelMatchers {
					found.Matchers = append(found.Matchers, matcher{m.Name, m.Type.String(), m.Value})
				}
				answer.Selectors = append(answer.Selectors, found)
			case *parser.AggregateExpr:
				answer.Labels = append(answer.Labels, each.Grouping...)
			case *parser.BinaryExpr:
				if each.VectorMatching != nil {
					answer.Labels = append(answer.Labels, each.VectorMatching.MatchingLabels...)
				}
			}
			return nil
		})
		answers = append(answers, answer)
	}
	return answers, nil
}
