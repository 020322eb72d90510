package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

type story struct {
	File     string
	Interval model.Duration
	Series   []struct{ Series, Values string }
	At       []model.Duration
}

type alert struct {
	Alert       string            `json:"alert"`
	State       string            `json:"state"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// rulesAt plays the series, evaluates all rules at every interval, and says which alerts are
// pending or firing at each of the moments asked for.
func rulesAt(question []byte) (map[string][]alert, error) {
	var asked story
	if err := json.Unmarshal(question, &asked); err != nil {
		return nil, err
	}
	var load strings.Builder
	fmt.Fprintf(&load, "load %v\n", asked.Interval)
	for _, each := range asked.Series {
		fmt.Fprintf(&load, "  %s %s\n", each.Series, each.Values)
	}
	p := parser.NewParser(parser.Options{})
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	if err != nil {
		return nil, err
	}
	defer suite.Close()
	interval := time.Duration(asked.Interval)
	suite.SubqueryInterval = interval
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		Appendable: suite.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     p,
	})
	loaded, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, asked.File)
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	alerting := []*rules.AlertingRule{}
	for _, group := range loaded {
		for _, rule := range group.Rules() {
			if each, ok := rule.(*rules.AlertingRule); ok {
				each.SetRestored(true)
				alerting = append(alerting, each)
			}
		}
	}
	answers := map[string][]alert{}
	start := time.Unix(0, 0).UTC()
	last := time.Duration(slices.Max(asked.At))
	for after := time.Duration(0); after <= last; after += interval {
		var failed error
		suite.WithSamplesTill(start.Add(after), func(err error) {
			failed = err
			for _, group := range loaded {
				group.Eval(suite.Context(), start.Add(after))
			}
		})
		for _, each := range alerting {
			failed = errors.Join(failed, each.LastError())
		}
		if failed != nil {
			return nil, failed
		}
		if slices.Contains(asked.At, model.Duration(after)) {
			answers[model.Duration(after).String()] = active(alerting)
		}
	}
	return answers, nil
}

func active(alerting []*rules.AlertingRule) []alert {
	found := []alert{}
	for _, rule := range alerting {
		for _, each := range rule.ActiveAlerts() {
			found = append(found, alert{
				rule.Name(), each.State.String(), each.Labels.Map(), each.Annotations.Map(),
			})
		}
	}
	return found
}
