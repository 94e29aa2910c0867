// SPDX-License-Identifier: Apache-2.0

// A scheduler extender that does nothing but decode and encode the types of k8s.io/kube-scheduler, as extenders written in Go
// do: every node passes, every node scores 5. What kwatt's extender is measured against.
package main

import (
	"encoding/json"
	"net/http"
	"os"

	extender "k8s.io/kube-scheduler/extender/v1"
)

func decode(w http.ResponseWriter, r *http.Request) (args extender.ExtenderArgs, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return args, false
	}
	return args, true
}

func encode(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func main() {
	http.HandleFunc("/filter", func(w http.ResponseWriter, r *http.Request) {
		if args, ok := decode(w, r); ok {
			encode(w, extender.ExtenderFilterResult{NodeNames: args.NodeNames, Nodes: args.Nodes})
		}
	})
	http.HandleFunc("/prioritize", func(w http.ResponseWriter, r *http.Request) {
		args, ok := decode(w, r)
		if !ok {
			return
		}
		scores := extender.HostPriorityList{}
		if args.NodeNames != nil {
			for _, name := range *args.NodeNames {
				scores = append(scores, extender.HostPriority{Host: name, Score: 5})
			}
		} else if args.Nodes != nil {
			for i := range args.Nodes.Items {
				scores = append(scores, extender.HostPriority{Host: args.Nodes.Items[i].Name, Score: 5})
			}
		}
		encode(w, scores)
	})
	if err := http.ListenAndServe(os.Args[1], nil); err != nil {
		os.Exit(1)
	}
}
