"""Clusters: barriers of all their CTAs, and memory of a CTA that others still use."""
