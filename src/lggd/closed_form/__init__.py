"""Closed-form classification: kernel ridge regression on propagated node features, solved instead of trained."""

from lggd.closed_form.kernel_ridge import KernelRidge
from lggd.closed_form.pseudo_labels import PseudoLabels
from lggd.closed_form.ridge_inputs import EdgeAgreement

__all__ = ["EdgeAgreement", "KernelRidge", "PseudoLabels"]
